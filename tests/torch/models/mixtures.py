"""Mixture-of-experts models from transformers, scaled down for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "use_cache": False,
}
EXPERTS = {"num_experts": 4, "moe_intermediate_size": 24}
DEEPSEEK = {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 24,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}


def mixtures() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, class and configuration of each model."""
    import transformers as tf

    yield "mixtral", tf.MixtralForCausalLM, tf.MixtralConfig(**SMALL, num_local_experts=4)
    yield "olmoe", tf.OlmoeForCausalLM, tf.OlmoeConfig(**SMALL, num_experts=4)
    shared = tf.Qwen2MoeConfig(**SMALL, **EXPERTS, shared_expert_intermediate_size=40)
    yield "qwen2_moe", tf.Qwen2MoeForCausalLM, shared
    qwen = tf.Qwen3MoeConfig(**SMALL, **EXPERTS, head_dim=8)
    yield "qwen3_moe", tf.Qwen3MoeForCausalLM, qwen
    for method in ("greedy", "group_limited_greedy"):
        config = tf.DeepseekV2Config(**{**SMALL, **DEEPSEEK}, topk_method=method)
        yield f"deepseek_v2_{method}", tf.DeepseekV2ForCausalLM, config
    config = tf.DeepseekV3Config(**{**SMALL, **DEEPSEEK})
    yield "deepseek_v3", tf.DeepseekV3ForCausalLM, config
