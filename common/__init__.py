"""The ground that `gateway` and `serving` both stand on: places in files, problems, log lines."""
