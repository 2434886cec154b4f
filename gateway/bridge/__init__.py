"""The bridge: what passes through the LiteLLM library, which no other folder imports."""
