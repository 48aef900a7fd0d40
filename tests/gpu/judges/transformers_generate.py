"""Hugging Face's generate() with random weights, with a cache that grows, and
with one of a fixed size, for which it compiles the step of a token."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = LlamaForCausalLM(LlamaConfig(
    num_hidden_layers=4, hidden_size=256, intermediate_size=688,
    num_attention_heads=4, num_key_value_heads=4, vocab_size=1000,
    bos_token_id=1, eos_token_id=2, pad_token_id=0)).cuda().eval()
prompt = torch.arange(3, 19).reshape(1, -1).cuda()
for cache in "dynamic", "static":
    for _ in range(2):
        out = model.generate(prompt, max_new_tokens=80, min_new_tokens=80,
                             do_sample=False, cache_implementation=cache)
        print(cache, out[0].tolist(), flush=True)
