//! Judgement and resolution of `.agt` names: doubles for every source, real chains for the holder.

mod chain;
mod contents;
mod corpus;
mod documents;
mod doubles;
mod fixture;
mod history;
mod holders;
mod resolving;
mod signatures;
mod txt_answers;
mod vectors;
mod verdicts;
