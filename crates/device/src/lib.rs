//! pgstow-device
