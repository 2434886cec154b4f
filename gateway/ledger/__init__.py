"""The ledger: local tokens beside what the cloud would have charged for them."""
