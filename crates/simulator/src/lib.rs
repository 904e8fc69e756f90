//! pgstow-simulator
