-- Whether pages have checksums.
SELECT current_setting('data_checksums') = 'on'
