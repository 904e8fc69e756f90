//! pgstow-emulator
