//! Logs of long-running commands: one line per event, on stderr.

use tracing::level_filters::LevelFilter;

use crate::printer::Printer;

/// Installs the logger. A second call in one process has no effect.
pub(crate) fn begin(printer: &Printer) {
    let level = match (printer.is_quiet(), printer.is_verbose()) {
        (true, _) => LevelFilter::ERROR,
        (false, false) => LevelFilter::WARN,
        (false, true) => LevelFilter::INFO,
    };
    let subscriber =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_ansi(false).with_target(false).finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
}
