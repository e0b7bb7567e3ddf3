//! Known packages with a static embedding: the paths and hashes of their files.

use std::path::Path;

use sha2::{Digest as _, Sha256};

/// A file of a package.
#[derive(Debug)]
pub(super) struct File {
    /// Its path in the unpacked package.
    pub(super) path: &'static str,
    /// Its SHA-256, as `sha256sum` prints it.
    sha256: &'static str,
}

/// A package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) tensors: File,
    pub(super) tokenizer: File,
}

/// `pip download --no-deps wordllama==0.4.0.post1`, unpacked.
static PACKAGES: [Package; 1] = [Package {
    name: "wordllama-256",
    tensors: File {
        path: "wordllama/weights/l2_supercat_256.safetensors",
        sha256: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    },
    tokenizer: File {
        path: "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        sha256: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    },
}];

/// Returns the package that is unpacked in a folder. One of the two files is enough, so that a missing one is an error and no other layout
/// is tried.
pub(super) fn find(folder: &Path) -> Option<&'static Package> {
    PACKAGES.iter().find(|package| folder.join(package.tensors.path).exists() || folder.join(package.tokenizer.path).exists())
}

/// Returns the package that both files belong to, whatever their names are.
pub(super) fn with_hashes(tensors: &[u8], tokenizer: &[u8]) -> Option<&'static Package> {
    PACKAGES.iter().find(|package| package.check(tensors, tokenizer).is_ok())
}

impl Package {
    /// Rejects files with other hashes.
    pub(super) fn check(&self, tensors: &[u8], tokenizer: &[u8]) -> Result<(), String> {
        for (file, bytes) in [(&self.tensors, tensors), (&self.tokenizer, tokenizer)] {
            let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            if found != file.sha256 {
                let File { path, sha256 } = file;
                return Err(format!("{path} has SHA-256 {found}, expected {sha256} for {}", self.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_bytes() {
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = || File { path: "abc", sha256 };
        let package = Package { name: "abc", tensors: file(), tokenizer: file() };
        assert_eq!(package.check(b"abc", b"abc"), Ok(()));
        for (tensors, tokenizer) in [(&b"abd"[..], &b"abc"[..]), (b"abc", b"")] {
            let reason = package.check(tensors, tokenizer).expect_err("another hash");
            assert!(reason.contains("SHA-256") && reason.contains(sha256), "{reason}");
        }
        assert!(with_hashes(b"abc", b"abc").is_none());
    }
}
