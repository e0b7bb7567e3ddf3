//! Tests over whole files: the vectors of this repository, and a corpus of manifests found in the wild.

mod corpus;
mod kind_corpus;
mod local_corpus;
mod local_vectors;
