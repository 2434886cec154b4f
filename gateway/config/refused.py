"""Body names that a client may not send: each would move a request past what the file decided.

The relay answers them with 400 on every route. A deployment may use some of these names in the
file; there they are the operator's word. Everything that is not listed reaches the engine.
"""

from __future__ import annotations

from typing import Final

# Where the request goes and as whom: a client that could set these would get the gateway's key
# sent to its own host.
_DESTINATION: Final = frozenset(
    {
        "api_base",
        "api_key",
        "api_type",
        "api_version",
        "aws_access_key_id",
        "aws_bedrock_runtime_endpoint",
        "aws_profile_name",
        "aws_role_name",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_sts_endpoint",
        "aws_web_identity_token",
        "azure_ad_token",
        "azure_password",
        "azure_username",
        "base_url",
        "client_id",
        "client_secret",
        "configurable_clientside_auth_params",
        "custom_llm_provider",
        "default_headers",
        "extra_headers",
        "litellm_credential_name",
        "proxy_url",
        "region_name",
        "s3_endpoint_url",
        "tenant_id",
        "vertex_credentials",
        "vertex_location",
        "vertex_project",
    }
)

# Which deployment serves, and how often it is tried: the file's decision alone.
_ROUTING: Final = frozenset(
    {
        "allowed_model_region",
        "context_window_fallback_dict",
        "context_window_fallbacks",
        "content_policy_fallbacks",
        "default_fallbacks",
        "deployment_id",
        "fallback_depth",
        "fallbacks",
        "litellm_params",
        "max_fallbacks",
        "model_config",
        "model_group_alias",
        "model_group_retry_policy",
        "model_info",
        "model_list",
        "num_retries",
        "retry_policy",
        "retry_strategy",
        "router_settings_override",
        "specific_deployment",
        "use_chat_completions_api",
        "user_config",
        "_target_order",
    }
)

# What the LiteLLM library would do with the request besides sending it.
_LIBRARY: Final = frozenset(
    {
        "additional_drop_params",
        "callbacks",
        "drop_params",
        "extra_body",
        "failure_callback",
        "litellm_call_id",
        "litellm_embedding_config",
        "litellm_logging_obj",
        "litellm_metadata",
        "litellm_session_id",
        "litellm_trace_id",
        "litellm_request_debug",
        "no-log",
        "secret_fields",
        "success_callback",
        "user_api_key",
        "user_api_key_dict",
    }
)

REFUSED_BODY_NAMES: Final[frozenset[str]] = _DESTINATION | _ROUTING | _LIBRARY

# LiteLLM's own test switches: an answer that no engine gave.
REFUSED_BODY_PREFIXES: Final[tuple[str, ...]] = ("mock_",)


def is_refused(name: str) -> bool:
    """True if a request body with this top-level name is answered with 400."""
    return name in REFUSED_BODY_NAMES or name.startswith(REFUSED_BODY_PREFIXES)
