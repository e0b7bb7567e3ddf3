//! Tests over the public interface: files from elsewhere, and whole journeys.

mod agent_corpus;
