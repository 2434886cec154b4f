"""The file: YAML in LiteLLM's grammar -> Config, or every problem at once."""
