//! `agt pack`: the CID, the archive and the TXT record of a manifest.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolcrib_agent::ipfs::{HashFunction, Layout, Packed, pack};
use toolcrib_chain::sign;
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::checked;
use toolcrib_core::codes;
use toolcrib_core::finding::Mode;
use toolcrib_files::AtomicFile;

use crate::input::Source;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt pack`.
#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// Signed manifest, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// Pack as a `UnixFS` file (dag-pb) instead of one raw block
    #[arg(long)]
    pub(crate) dag_pb: bool,
    /// Also write the blocks as a CAR archive
    #[arg(long, value_name = "FILE")]
    pub(crate) car: Option<PathBuf>,
}

/// Packs a manifest.
pub(crate) fn run(arguments: &Pack, printer: &mut Printer) -> Result<Done, Stop> {
    let (manifest, bytes) = read_signed(&arguments.path)?;
    let packed = pack_bytes(&bytes, arguments.dag_pb)?;
    let record = packed.txt_record(&[] as &[&str]).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    if let Some(path) = &arguments.car {
        write_car(path, &packed)?;
    }
    printer.result(&format!("{}\n", packed.root()))?;
    printer.aside(&format!("TXT record of {}: {record}\n", manifest.domain()))?;
    let car = arguments.car.as_ref().map(|path| path.display().to_string());
    let cid = packed.root().to_string();
    Ok(Done::new(
        Exit::Yes,
        json!({ "domain": manifest.domain().as_str(), "cid": cid, "txt": record, "bytes": bytes.len(), "car": car }),
    ))
}

/// Reads a manifest that is valid and signed by its owner; any other is not worth publishing.
pub(crate) fn read_signed(path: &Path) -> Result<(AgentManifest, Vec<u8>), Failure> {
    let source = Source::from_argument(path);
    let bytes = source.read()?;
    let checked = checked::parse::<AgentManifest>(&bytes, Mode::Producer);
    let name = shown(&source.name());
    let Some(manifest) = checked.conformant() else {
        let code = checked.findings.first().map_or(codes::agent::UNSIGNED, |finding| finding.code);
        return Err(Failure::new(code, format!("{name} breaks a rule")).hint("toolcrib lint shows every problem"));
    };
    sign::check_owner_signature(manifest)
        .map_err(|error| Failure::new(error.code(), format!("{name}: {error}")).hint("sign it again: toolcrib agt sign"))?;
    Ok((AgentManifest::clone(manifest), bytes))
}

/// Packs the bytes of a file.
pub(crate) fn pack_bytes(bytes: &[u8], dag_pb: bool) -> Result<Packed, Failure> {
    let layout = if dag_pb { Layout::FileNodes } else { Layout::RawLeaves };
    pack(bytes, layout, HashFunction::default()).map_err(|error| Failure::new(error.code(), error.to_string()))
}

/// Writes an archive.
pub(crate) fn write_car(path: &Path, packed: &Packed) -> Result<(), Failure> {
    AtomicFile::new(path)
        .shared()
        .replace(&packed.to_car())
        .map_err(|error| Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", path.display())))
}
