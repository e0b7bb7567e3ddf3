"""Prints every Parquet file of an export as DuckDB reads it: columns with their types, and rows. One JSON value on stdout."""

import json
import pathlib
import sys

import duckdb

database = duckdb.connect()
database.execute("SET TimeZone = 'UTC'")
answer = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.parquet")):
    table = database.read_parquet(str(path))
    types = dict(zip(table.columns, (str(kind) for kind in table.types)))
    # Times as milliseconds: Python's own type has no years beyond 9999, and needs another package for zones.
    columns = [f'epoch_ms("{name}") AS "{name}"' if kind.startswith("TIMESTAMP") else f'"{name}"' for name, kind in types.items()]
    rows = table.project(", ".join(columns)).fetchall()
    metadata = database.execute("SELECT decode(key), decode(value) FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
    answer[path.stem] = {
        "types": types,
        "metadata": dict(metadata),
        "rows": [dict(zip(types, row)) for row in rows],
    }
# What is documented: the tables join by the name of the tool.
folder = sys.argv[1]
joined = f"""SELECT t.tool, count(u.id) FROM '{folder}/tools.parquet' t LEFT JOIN '{folder}/usage.parquet' u USING (tool)
    GROUP BY t.tool ORDER BY t.tool"""
answer["calls"] = dict(database.execute(joined).fetchall())
json.dump(answer, sys.stdout)
