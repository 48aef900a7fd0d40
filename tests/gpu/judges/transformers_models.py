"""Hugging Face's models with random weights: what GPT-2 writes on, and what BERT
in half precision gives."""

import hashlib

import torch
from transformers import (BertConfig, BertForMaskedLM, GPT2Config,
                          GPT2LMHeadModel)

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
writer = GPT2LMHeadModel(GPT2Config(
    n_layer=4, n_embd=256, n_head=4, vocab_size=1000, bos_token_id=1,
    eos_token_id=2, pad_token_id=0)).cuda().eval()
prompt = torch.arange(3, 19).reshape(1, -1).cuda()
print("greedy", writer.generate(prompt, max_new_tokens=60,
                                do_sample=False)[0].tolist())
print("beams", writer.generate(prompt, max_new_tokens=40,
                               num_beams=4)[0].tolist())
reader = BertForMaskedLM(BertConfig(
    num_hidden_layers=2, hidden_size=128, num_attention_heads=4,
    intermediate_size=256)).cuda().half()
out = reader(torch.arange(100).reshape(2, 50).cuda()).logits
print("bert", hashlib.sha256(
    out.detach().cpu().numpy().tobytes()).hexdigest()[:16])
