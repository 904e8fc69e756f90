"""The page's part on experiments: what was compared, what it showed, what a study says of it."""
