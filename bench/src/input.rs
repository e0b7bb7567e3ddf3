//! The measured inputs: generated tool manifests of four sizes, and the files of a corpus if one is given.
//!
//! The generated ones are deterministic, satisfy every rule of ERC-8257, and resemble handwritten files: pretty printed, keys in the order
//! of the specification, most bytes in schema descriptions. The largest reaches the limits.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

/// A set of manifests that are measured together.
pub struct Set {
    pub name: String,
    /// Their files, for the peers.
    pub paths: Vec<PathBuf>,
    pub sources: Vec<Vec<u8>>,
}

impl Set {
    pub fn source_bytes(&self) -> usize {
        self.sources.iter().map(Vec::len).sum()
    }
}

/// The parameters that determine the size of a generated manifest.
struct Shape {
    name: &'static str,
    /// Properties of `inputs` and of `outputs`, each one a schema node. Below 512, so that both stay under 1,024 nodes.
    inputs: usize,
    outputs: usize,
    /// Sentences in the description of each property.
    sentences: usize,
    /// Entries of `access.requirements` (at most 256) and the bytes of `data` in each (at most 4,096).
    requirements: usize,
    data: usize,
    /// Entries of an extension field.
    notes: usize,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "1KiB", inputs: 1, outputs: 1, sentences: 1, requirements: 0, data: 0, notes: 0 },
    Shape { name: "6KiB", inputs: 14, outputs: 9, sentences: 1, requirements: 1, data: 64, notes: 2 },
    Shape { name: "22KiB", inputs: 50, outputs: 40, sentences: 1, requirements: 4, data: 128, notes: 8 },
    Shape { name: "800KiB", inputs: 490, outputs: 490, sentences: 4, requirements: 256, data: 512, notes: 1100 },
];

/// Writes the generated manifests below `folder` and returns them, one set for each.
pub fn generated(folder: &Path) -> io::Result<Vec<Set>> {
    fs::create_dir_all(folder)?;
    SHAPES
        .iter()
        .map(|shape| {
            let text = format!("{:#}\n", manifest(shape));
            let path = folder.join(format!("{}.json", shape.name));
            fs::write(&path, &text)?;
            Ok(Set { name: shape.name.to_owned(), paths: vec![path], sources: vec![text.into_bytes()] })
        })
        .collect()
}

/// The manifests of a corpus. Files that `keep` rejects are omitted.
pub fn corpus(folder: &Path, keep: impl Fn(&[u8]) -> bool) -> io::Result<Set> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut set = Set { name: "corpus".to_owned(), paths: Vec::new(), sources: Vec::new() };
    for path in paths {
        let source = fs::read(&path)?;
        if keep(&source) {
            set.paths.push(path);
            set.sources.push(source);
        }
    }
    Ok(set)
}

fn manifest(shape: &Shape) -> Value {
    let mut manifest = json!({
        "type": "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
        "name": format!("harbour-tides-{}", shape.name.to_ascii_lowercase()),
        "description": "Tide tables for 4,200 harbours \u{2014} heights, times and currents.\nAsk by name or by position.",
        "endpoint": "https://tides.example/api/v1/tools/harbour-tides",
        "inputs": schema("input", shape.inputs, shape.sentences),
        "outputs": schema("output", shape.outputs, shape.sentences),
        "creatorAddress": "0x1f98431c8ad98523631ae4a59f267346ea31f984",
        "version": "2.4.1",
        "tags": ["weather", "maritime"],
        "pricing": [{
            "amount": "20000",
            "asset": "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
            "recipient": "eip155:8453:0x1f98431c8ad98523631ae4a59f267346ea31f984",
            "protocol": "x402",
        }],
    });
    if shape.requirements > 0 {
        let requirements: Vec<Value> = (0..shape.requirements).map(|index| requirement(index, shape.data)).collect();
        manifest["access"] = json!({ "logic": "OR", "requirements": requirements });
    }
    if shape.notes > 0 {
        let notes: Vec<Value> = (0..shape.notes).map(note).collect();
        manifest["io.example.notes"] = Value::Array(notes);
    }
    manifest
}

fn schema(what: &str, count: usize, sentences: usize) -> Value {
    let properties: Map<String, Value> =
        (0..count).map(|index| (property_name(what, index), property(index, sentences))).collect();
    let required: Vec<&String> = properties.keys().take(3).collect();
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

/// Names in arbitrary order, as in handwritten files.
fn property_name(what: &str, index: usize) -> String {
    const WORDS: [&str; 8] = ["station", "from", "until", "datum", "unit", "height", "current", "latitude"];
    match index / WORDS.len() {
        0 => WORDS[index].to_owned(),
        more => format!("{}_{what}_{more}", WORDS[index % WORDS.len()]),
    }
}

fn property(index: usize, sentences: usize) -> Value {
    const SENTENCES: [&str; 4] = [
        "The harbour to ask about, by its \"official\" name.",
        "Start of the period, in the time zone of the station; midnight if left out.",
        "Metres above chart datum, rounded to two places.",
        "Speed of the surface current in knots, negative at ebb.",
    ];
    let description: Vec<&str> = (0..sentences).map(|sentence| SENTENCES[(index + sentence) % 4]).collect();
    let description = description.join(" ");
    match index % 4 {
        0 => json!({ "type": "string", "description": description, "minLength": 1, "maxLength": 120 }),
        1 => json!({ "type": "string", "description": description, "format": "date-time" }),
        2 => json!({ "type": "number", "description": description, "minimum": -12.5, "maximum": 18.25 }),
        _ => json!({ "type": "string", "description": description, "enum": ["metric", "imperial", "nautical"] }),
    }
}

fn requirement(index: usize, bytes: usize) -> Value {
    let mut data = String::with_capacity(bytes * 2 + 2);
    data.push_str("0x");
    for at in 0..bytes {
        data.push_str(&format!("{:02x}", (at * 167 + index * 59) % 256));
    }
    json!({
        "kind": "0x44bb3ac8",
        "data": data,
        "label": format!("Holds a pass of season {index}"),
        "links": { "mint": format!("https://passes.example/season/{index}") },
    })
}

fn note(index: usize) -> Value {
    json!({ "id": index, "at": 1_780_000_000 + index * 3600, "text": "Checked against the tables of the hydrographic office." })
}
