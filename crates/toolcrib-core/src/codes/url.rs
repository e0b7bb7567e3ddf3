//! Codes of the URL rules: the grammar, lints about hosts, and origin binding.

super::codes! {
    EMPTY = "url.empty", Error, "ERC-8257 §6 URL Normalization" {
        "the URL is empty",
        "An empty text is not a URL. Often an environment variable was not set when the file was generated.",
        "write the URL, or leave the field out if it is optional",
    }
    NO_SCHEME = "url.no_scheme", Error, "ERC-8257 §6 URL Normalization" {
        "the URL has no scheme",
        "A bare host, a path or `//host` is a relative reference. A manifest has no base URL to resolve it against.",
        "start the URL with https://",
    }
    NOT_HTTPS = "url.not_https", Error, "ERC-8257 §6 URL Normalization" {
        "the URL is not https",
        "Only https is allowed. Plain http can be read and altered on the network path, and schemes such as data, javascript and file run code or read files on the reader's machine.",
        "serve it over https and start the URL with https://",
    }
    NO_AUTHORITY = "url.no_authority", Error, "RFC 3986 §3" {
        "the scheme is not followed by //",
        "Browsers repair `https:host` and `https:/host`; other readers refuse them or read them as a path.",
        "write https:// with two slashes",
    }
    EMPTY_HOST = "url.empty_host", Error, "RFC 9110 §4.2.2" {
        "the URL has no host",
        "An https URL without a host is invalid and has no origin.",
        "write the host after https://",
    }
    USERINFO = "url.userinfo", Error, "RFC 9110 §4.2.4" {
        "the URL has a user name or password before the host",
        "The part before `@` is credentials. It leaks secrets into a public manifest, and attackers use it to make a URL look as if it pointed to another host.",
        "remove the part before the @ sign",
    }
    HOST_NOT_ASCII = "url.host_not_ascii", Error, "ERC-8257 §6 rule G3" {
        "the host is not written as an A-label",
        "An internationalised host must be given in its ASCII form (xn--...). Readers must refuse the other form instead of converting it, because conversions differ.",
        "write the ASCII form of the host",
    }
    HOST_PERCENT = "url.host_percent", Error, "ERC-8257 §6 rule G3" {
        "the host has a percent sign",
        "Some readers decode percent escapes in a host and others do not, so they would connect to different hosts. IPv6 zones are local to one machine.",
        "write the host in plain ASCII",
    }
    HOST_CHARACTER = "url.host_character", Error, "RFC 1123 §2.1" {
        "the host has a character that host names cannot have",
        "A host name is made of letters, digits, hyphens and dots.",
        "correct the host name",
    }
    HOST_UNDERSCORE = "url.host_underscore", Error, "RFC 1123 §2.1" {
        "the host has an underscore",
        "DNS allows an underscore, but host names do not: some clients and certificate authorities refuse it. Readers only warn, because ERC-8257 does not forbid it.",
        "use a host name of letters, digits, hyphens and dots",
    }
    EMPTY_LABEL = "url.empty_label", Error, "RFC 1035 §2.3.1" {
        "the host has an empty label",
        "Two dots in a row, or a leading dot, make an empty label. Often a variable in the name was not filled in.",
        "remove the extra dot, or fill in the missing label",
    }
    TRAILING_DOT = "url.trailing_dot", Error, "ERC-8257 §6 URL Normalization" {
        "the host ends in a dot",
        "`host.` and `host` are the same name in DNS but two different origins, so one tool could have two identities.",
        "remove the dot at the end of the host",
    }
    LABEL_TOO_LONG = "url.label_too_long", Error, "RFC 1035 §2.3.4" {
        "a label of the host is longer than 63 characters",
        "DNS cannot carry such a name.",
        "correct the host name",
    }
    LABEL_HYPHEN = "url.label_hyphen", Error, "RFC 1123 §2.1" {
        "a label of the host starts or ends with a hyphen",
        "Hyphens are allowed only between other characters. Many resolvers and all certificate authorities refuse such names.",
        "correct the host name",
    }
    HOST_TOO_LONG = "url.host_too_long", Error, "RFC 1035 §2.3.4" {
        "the host is longer than 253 characters",
        "DNS cannot carry such a name.",
        "correct the host name",
    }
    INVALID_PUNYCODE = "url.invalid_punycode", Error, "ERC-8257 §6 rule G3; UTS #46" {
        "an xn-- label of the host is not a valid A-label",
        "It does not decode, decodes to characters that host names cannot have, or has another canonical form. Readers would disagree about the host.",
        "convert the intended name again with an IDNA tool",
    }
    NUMERIC_TOP_LABEL = "url.numeric_top_label", Error, "WHATWG URL, host parsing" {
        "the host ends in a number but is not an IPv4 address",
        "Readers that follow WHATWG URL treat such a host as a malformed IPv4 address and refuse it.",
        "correct the host name",
    }
    IPV4_NOT_CANONICAL = "url.ipv4_not_canonical", Error, "ERC-8257 Malicious Endpoints" {
        "the IPv4 address is not four plain decimal numbers",
        "Some software reads decimal, octal, hexadecimal and shortened forms as addresses, other software as names. Attackers use them to bypass filters.",
        "write a host name, or the address as four decimal numbers",
    }
    IPV6_INVALID = "url.ipv6_invalid", Error, "RFC 3986 §3.2.2" {
        "the host is not a valid IPv6 address in brackets",
        "An IPv6 address in a URL is written in square brackets and without a zone.",
        "write a host name, or the address in brackets",
    }
    IPV6_NOT_CANONICAL = "url.ipv6_not_canonical", Error, "RFC 5952" {
        "the IPv6 address is not in its canonical form",
        "The same address can be written in many ways, and origins are compared byte by byte.",
        "write the address in the form of RFC 5952: lowercase, no leading zeros, longest run of zeros as ::",
    }
    NON_PUBLIC_ADDRESS = "url.non_public_address", Error, "ERC-8257 Malicious Endpoints" {
        "the IP address is not on the public internet",
        "A manifest that points at loopback, private, link-local or reserved addresses would make readers send requests into their own network (SSRF). Readers must refuse it.",
        "use a public host name",
    }
    PORT_EMPTY = "url.port_empty", Error, "ERC-8257 §6 rule G2" {
        "a colon after the host is not followed by a port",
        "Readers differ in whether `host:` equals `host`.",
        "remove the colon, or write the port",
    }
    PORT_NOT_A_NUMBER = "url.port_not_a_number", Error, "RFC 3986 §3.2.3" {
        "the port is not a number",
        "A port is a decimal number from 1 to 65535.",
        "write a number from 1 to 65535, or leave the port out",
    }
    PORT_LEADING_ZERO = "url.port_leading_zero", Error, "ERC-8257 §6 rule G2" {
        "the port has a leading zero",
        "The same port would have many spellings, and origins are compared byte by byte.",
        "remove the leading zeros",
    }
    PORT_ZERO = "url.port_zero", Error, "RFC 6335 §6" {
        "the port is 0",
        "Port 0 is reserved; nothing can listen there.",
        "write a number from 1 to 65535, or leave the port out",
    }
    PORT_TOO_LARGE = "url.port_too_large", Error, "RFC 3986 §3.2.3" {
        "the port is larger than 65535",
        "A port is a 16-bit number.",
        "write a number from 1 to 65535, or leave the port out",
    }
    WHITESPACE = "url.whitespace", Error, "RFC 3986 §2" {
        "the URL has a space, tab or line break",
        "Browsers drop tabs and line breaks and trim spaces; other readers do not. The bytes in the manifest must be the URL itself.",
        "remove it, or write %20 if a space is meant",
    }
    CONTROL = "url.control_character", Error, "RFC 3986 §2" {
        "the URL has a control character",
        "Control characters are not allowed in a URL. They can split headers and log lines and send escape sequences to terminals.",
        "remove it",
    }
    BACKSLASH = "url.backslash", Error, "RFC 3986 §2" {
        "the URL has a backslash",
        "Browsers read a backslash as a slash; other clients do not. The host or the path would differ from reader to reader.",
        "write a slash, or %5C if a backslash is meant",
    }
    TEMPLATE = "url.template", Error, "RFC 3986 §2" {
        "the URL has a placeholder that was not filled in",
        "Braces and angle brackets are not allowed in a URL. `{param}`, `${NAME}` and `<host>` are placeholders for people or template engines; callers send them literally.",
        "put the value in, or move the parameter to `inputs`",
    }
    NON_ASCII = "url.non_ascii", Error, "RFC 3986 §2" {
        "the URL has a character outside ASCII",
        "A URL is ASCII. Readers encode other characters in different ways.",
        "percent-encode the UTF-8 bytes of the character",
    }
    PERCENT_TRIPLET = "url.percent_triplet", Error, "RFC 3986 §2.1" {
        "a percent sign is not followed by two hexadecimal digits",
        "A lone percent sign is read in different ways, and `%NAME%` is a variable of the Windows command line. Readers only warn, because ERC-8257 does not restrict the path of an endpoint.",
        "write %25 if a percent sign is meant",
    }
    CHARACTER = "url.character", Error, "RFC 3986 §2" {
        "the URL has a character that is not allowed there",
        "Quotes, pipes, carets, backticks and square brackets must be percent-encoded after the host. Unencoded, they can also change the meaning of a copied shell command.",
        "percent-encode the character",
    }
    DOT_SEGMENT = "url.dot_segment", Error, "RFC 3986 §5.2.4" {
        "the path has a . or .. segment",
        "Most clients resolve such segments before sending, even when they are encoded as %2e; others send them. The path would differ between readers. Readers of endpoints only warn, because ERC-8257 does not restrict their path.",
        "write the resolved path",
    }
    SCHEME_UPPER_CASE = "url.scheme_upper_case", Error, "ERC-8257 §6 rule G1" {
        "the scheme has upper-case letters",
        "A URL is stored with a lowercase scheme, because manifests are compared byte by byte. Readers lowercase it before comparing.",
        "write https in lower case (toolcrib lint --fix does it)",
    }
    HOST_UPPER_CASE = "url.host_upper_case", Error, "ERC-8257 §6 rule G1" {
        "the host has upper-case letters",
        "A URL is stored with a lowercase host, because manifests are compared byte by byte. Readers lowercase it before comparing.",
        "write the host in lower case (toolcrib lint --fix does it)",
    }
    DEFAULT_PORT = "url.default_port", Error, "ERC-8257 §6 rule G2" {
        "port 443 is written out",
        "443 is the default of https and is left out, because manifests are compared byte by byte. Readers drop it before comparing.",
        "remove :443 (toolcrib lint --fix does it)",
    }
    QUERY_APOSTROPHE = "url.query_apostrophe", Error, "WHATWG URL, query state" {
        "the query has an apostrophe",
        "RFC 3986 allows it, but clients that follow WHATWG URL send %27 instead, so the server sees different bytes from different callers. Readers only warn.",
        "write %27",
    }
    TOO_LONG = "url.too_long", Error, "ERC-8257 §2 Optional Fields" {
        "the URL is longer than 2,048 bytes",
        "The limit counts UTF-8 bytes after normalisation. Readers refuse longer URLs in this field.",
        "shorten the URL; host the content instead of putting it into the URL",
    }
    TEMPLATE_SEGMENT = "url.template_segment", Warning, "Toolcrib" {
        "a path segment looks like an unfilled parameter",
        "`:name` is how routers write a parameter. Callers send the segment literally.",
        "put the value in, or move the parameter to `inputs`",
    }
    RESERVED_HOST = "url.reserved_host", Warning, "RFC 6761; RFC 6762; ICANN private-use TLD" {
        "the host can never be reached from the public internet",
        "localhost, .local, .internal, .test, .invalid and similar names are reserved for local use. Other machines cannot fetch or call it, so verification cannot succeed.",
        "write the public host name",
    }
    DOTLESS_HOST = "url.dotless_host", Warning, "RFC 7085" {
        "the host is a single word",
        "A single-word name resolves only inside a private network, to the machine that has this name in the reader's network.",
        "write the full public host name",
    }
    EXAMPLE_HOST = "url.example_host", Hint, "RFC 2606" {
        "the host is reserved for examples",
        "example.com, example.org, example.net and .example are reserved for documentation. A real tool cannot be served there.",
        "write the host name of your server before publishing",
    }
    PLACEHOLDER_HOST = "url.placeholder_host", Warning, "Toolcrib" {
        "the host looks like a placeholder",
        "Names such as your-domain come from templates. If another person registers the name, they control the origin of this tool.",
        "write the host name of your server",
    }
    EPHEMERAL_HOST = "url.ephemeral_host", Warning, "Toolcrib" {
        "the host is a tunnel, a paste bin or a request catcher",
        "Such hosts disappear, are reassigned, or serve content that others can edit. The next owner of the name controls the origin of this tool.",
        "host it under a name that you control",
    }
    PREVIEW_HOST = "url.preview_host", Warning, "Toolcrib" {
        "the host is a preview of a deployment",
        "Hosting services create such a name for one build, branch or pull request and remove it later. It does not serve later versions of the tool.",
        "use the host name of the production deployment, preferably one that you control",
    }
    MIXED_SCRIPT = "url.mixed_script", Warning, "ERC-8257 Origin-Binding Limitations; UTS #39 §5.2" {
        "a label of the host mixes scripts",
        "Letters of several scripts in one label can imitate another name. Latin combined with Japanese, Chinese or Korean is common and not reported. The host is shown as xn--.",
        "compare the xn-- form with the expected host; authors choose a name in one script",
    }
    CONFUSABLE_HOST = "url.confusable_host", Warning, "ERC-8257 Origin-Binding Limitations; UTS #39 §4" {
        "a label of the host looks like other text",
        "Each of its letters resembles an ASCII letter, or one of them resembles a dot, a slash or nothing at all. People mistake the host for another one. It is shown as xn--.",
        "compare the xn-- form with the expected host",
    }
    MIXED_NUMERALS = "url.mixed_numerals", Warning, "UTS #39 §5.3" {
        "a label of the host mixes digits of several number systems",
        "A digit of one system can look like a different digit of another, so people may read another number. The host is shown as xn--.",
        "compare the xn-- form with the expected host; authors use one kind of digits",
    }
    INVISIBLE_IN_HOST = "url.invisible_in_host", Warning, "UTS #39 §3.1; UAX #31 Default_Ignorable_Code_Point" {
        "the host has an invisible character",
        "Joiners and other ignorable characters are not displayed, so two different hosts look the same. The host is shown as xn--.",
        "compare the xn-- form with the expected host",
    }
    UNCOMMON_CHARACTER = "url.uncommon_character", Hint, "UTS #39 §3.1 General Security Profile" {
        "the host has an uncommon character",
        "Symbols, emoji, historic letters and scripts in limited use are hard to distinguish for most people. The host is shown as xn--.",
        "compare the xn-- form with the expected host",
    }
    IP_HOST = "url.ip_host", Warning, "Toolcrib" {
        "the host is an IP address",
        "IP addresses are reassigned without notice, and few certificate authorities issue certificates for them. Origin binding proves control of the address only.",
        "use a host name that you control",
    }
    SHELL_TEXT = "url.shell_text", Warning, "Toolcrib" {
        "the URL contains text that a shell could run",
        "Every character is legal in a URL, but together they look like a command. Such registrations target people who paste a URL into a terminal.",
        "percent-encode the characters, or remove the text",
    }
    METADATA_NOT_HTTPS = "url.metadata_not_https", Error, check 2, "ERC-8257 §6, §7 check 2" {
        "the metadata URI is not https",
        "A metadata URI must begin with https:// after normalisation. No other scheme has an origin that can be bound.",
        "serve the manifest over https at the well-known path and update the registration",
    }
    METADATA_MALFORMED = "url.metadata_malformed", Error, check 2, "ERC-8257 §6 rules G1 to G3, §7 check 2" {
        "the metadata URI is not a well-formed https URL",
        "Readers must be able to normalise the URI without guessing. Different software reads this one differently.",
        "update the registration with a well-formed URL",
    }
    METADATA_NOT_ACE = "url.metadata_not_ace", Error, check 2, "ERC-8257 §6 rule G3, §7 check 2" {
        "the host of the metadata URI is not written as an A-label",
        "Readers do not convert host names: two readers could convert them differently and connect to different hosts.",
        "register the URI with the host in its xn-- form, which `toolcrib lint` prints",
    }
    METADATA_TOO_LONG = "url.metadata_too_long", Error, check 2, "ERC-8257 Metadata URI Length Cap" {
        "the metadata URI is longer than 2,048 bytes",
        "Registries must refuse longer URIs, so this registration comes from a registry that does not conform. The well-known path never needs more than a few hundred bytes.",
        "use the well-known path; serve the manifest there instead of putting it into the URI",
    }
    METADATA_NOT_NORMALISED = "url.metadata_not_normalised", Warning, "ERC-8257 §6 URL Normalization" {
        "the metadata URI is not normalised",
        "Registrants must write the URI in lower case and without port 443. Readers normalise it before comparing, so the tool still verifies.",
        "register the normalised form",
    }
    METADATA_QUERY = "url.metadata_query", Error, check 2, "ERC-8257 §6 rule W2, §7 check 2" {
        "the metadata URI has a query",
        "A metadata URI that contains `?` must be refused, even if nothing follows it.",
        "remove the question mark and what follows it",
    }
    METADATA_FRAGMENT = "url.metadata_fragment", Error, check 2, "ERC-8257 §6 rule W2, §7 check 2" {
        "the metadata URI has a fragment",
        "A metadata URI that contains `#` must be refused, even if nothing follows it.",
        "remove the # and what follows it",
    }
    ORIGIN_HOST = "url.origin_host", Error, check 2, "ERC-8257 §6, §7 check 2; RFC 6454" {
        "the endpoint is on another host than the metadata URI",
        "Origin binding proves that the operator of the endpoint also serves the manifest. Subdomains, www and custom domains are different origins.",
        "serve the manifest on the host of the endpoint, or move the endpoint, then update the registration",
    }
    ORIGIN_PORT = "url.origin_port", Error, check 2, "ERC-8257 §6, §7 check 2; RFC 6454" {
        "the endpoint is on another port than the metadata URI",
        "Two ports of one host can be controlled by different people. A port other than 443 must be the same on both sides.",
        "serve both on the same port",
    }
    WELL_KNOWN_PREFIX = "url.well_known_prefix", Error, check 2, "ERC-8257 §6 rule W1, §7 check 2" {
        "the metadata URI is not under /.well-known/ai-tool/",
        "The well-known path shows that the operator of the whole origin placed the manifest, not a user with access to one folder.",
        "serve the manifest at /.well-known/ai-tool/<slug>.json at the root of the origin; a rewrite rule is enough, a redirect is not",
    }
    WELL_KNOWN_SUFFIX = "url.well_known_suffix", Error, check 2, "ERC-8257 §6 rule W1, §7 check 2" {
        "the path of the metadata URI does not end in .json",
        "The path is exactly /.well-known/ai-tool/<slug>.json: no trailing slash, no other case, no percent-encoding.",
        "end the path in .json",
    }
    SLUG_GRAMMAR = "url.slug_grammar", Error, check 2, "ERC-8257 §6, §7 check 2" {
        "the slug has characters that slugs cannot have",
        "A slug is made of lowercase letters and digits, with hyphens between them.",
        "rename the file, for example to the name of the tool in lower case with hyphens",
    }
    SLUG_LENGTH = "url.slug_length", Error, check 2, "ERC-8257 §6, §7 check 2" {
        "the slug is empty or longer than 64 characters",
        "A slug has 1 to 64 characters.",
        "give the file a shorter name",
    }
    SLUG_DIFFERS = "url.slug_differs", Hint, "Toolcrib" {
        "the slug differs from the one derived from the tool's name",
        "Any slug is legal. Authors report that listings expect the one derived from the name.",
        "consider the derived slug for a new registration; do not move a published manifest only for this",
    }
}
