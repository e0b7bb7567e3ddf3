"""Makes an account with a key in a moto server, and has the server check signatures from then on. Prints key and secret."""
import json
import sys
import urllib.request

import boto3

endpoint, bucket = sys.argv[1:]
common = {"endpoint_url": endpoint, "region_name": "us-east-1", "aws_access_key_id": "any", "aws_secret_access_key": "any"}
boto3.client("s3", **common).create_bucket(Bucket=bucket)
iam = boto3.client("iam", **common)
iam.create_user(UserName="toolcrib")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="toolcrib", PolicyName="objects", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="toolcrib")["AccessKey"]
urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}, method="POST")).read()
print(key["AccessKeyId"], key["SecretAccessKey"])
