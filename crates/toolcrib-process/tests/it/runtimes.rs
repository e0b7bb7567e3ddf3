//! Runtimes of real tools with the default policy.

use std::net::TcpListener;
use std::path::Path;

use toolcrib_process::{Network, Policy, ProgramSpec};

use crate::{PYTHON, program, run, sandboxed};

fn node(script: &str) -> Option<ProgramSpec> {
    let path = "/usr/bin/node";
    if !Path::new(path).exists() {
        toolcrib_testkit::skip("node", "there is no /usr/bin/node");
        return None;
    }
    Some(program(path, &["-e", script]))
}

#[tokio::test]
async fn node_runs_with_threads_children_and_webassembly() {
    let script = "const { Worker } = require('worker_threads');
        const { execFileSync } = require('child_process');
        const crypto = require('crypto');
        const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536 });
        const child = execFileSync('/bin/echo', ['child']).toString().trim();
        const worker = new Worker('require(\"worker_threads\").parentPort.postMessage(6 * 7)', { eval: true });
        worker.on('message', async (value) => {
            const hash = crypto.createHash('sha256').update('x').digest('hex').slice(0, 4);
            const cores = require('os').cpus().length > 0;
            console.log(child, value, memory.buffer.byteLength, hash, cores, (await import('node:path')).sep);
        });";
    let Some(spec) = node(script) else { return };
    assert_eq!(run(&sandboxed(spec, Policy::default())).await.succeeded(), "child 42 65536 2d71 true /");
}

#[tokio::test]
async fn node_fetches_from_an_allowed_port_and_from_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            use std::io::{Read as _, Write as _};
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
        }
    });
    let script = format!(
        "fetch('http://127.0.0.1:{port}/').then(r => r.text()).then(console.log, e => console.log('denied', e.cause.code))"
    );
    let Some(spec) = node(&script) else { return };
    let with = |network| sandboxed(spec.clone(), Policy { network, ..Policy::default() });
    assert_eq!(run(&with(Network::Ports(vec![port]))).await.succeeded(), "hi");
    assert_eq!(run(&with(Network::Ports(vec![port ^ 1]))).await.succeeded(), "denied EACCES");
    assert_eq!(run(&with(Network::None)).await.succeeded(), "denied EPERM");
}

#[tokio::test]
async fn python_runs_with_threads_children_and_its_library() {
    let script = "import asyncio, hashlib, json, sqlite3, ssl, subprocess, threading, tempfile, random, datetime\n\
                  ssl.create_default_context()\n\
                  threading.Thread(target=lambda: None).start()\n\
                  child = subprocess.run(['/bin/echo', 'child'], capture_output=True, text=True).stdout.strip()\n\
                  async def main(): await asyncio.sleep(0); return 42\n\
                  print(child, asyncio.run(main()), sqlite3.connect(':memory:').execute('select 1').fetchone()[0])";
    let spec = sandboxed(program(PYTHON, &["-c", script]), Policy::default());
    assert_eq!(run(&spec).await.succeeded(), "child 42 1");
}

#[tokio::test]
async fn node_and_python_write_where_they_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = || Policy { write: vec![folder.path().to_path_buf()], ..Policy::default() };
    let mut spec = program(
        PYTHON,
        &["-c", "import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b'x'); print(tempfile.gettempdir())"],
    );
    spec.environment.push(("TMPDIR".into(), folder.path().into()));
    assert_eq!(run(&sandboxed(spec, policy())).await.succeeded(), folder.path().to_str().expect("UTF-8"));
    let file = folder.path().join("node");
    let Some(spec) = node(&format!("require('fs').writeFileSync({file:?}, 'text')")) else { return };
    run(&sandboxed(spec, policy())).await.succeeded();
    assert_eq!(std::fs::read_to_string(file).expect("written"), "text");
}
