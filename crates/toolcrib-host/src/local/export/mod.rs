//! Exports one tool definition to the formats of models, clients and registries.
