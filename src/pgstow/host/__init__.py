"""The machine pgstow runs on: the only package that reads /proc and /sys or starts programs."""
