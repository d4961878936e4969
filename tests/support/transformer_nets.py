"""Networks of Hugging Face's transformers, small by config, with random weights."""

import transformers as hf
from torch import nn

LENGTH, WORDS, PAD = 6, 40, 1
TEXT = {"vocab_size": WORDS, "pad_token_id": PAD, "use_cache": False}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
USUAL = {**TEXT, **SIZES, "max_position_embeddings": 16}


class Net(nn.Module):
    """A network by its config, that returns the first of its outputs."""

    config: hf.PretrainedConfig
    kind: type[hf.PreTrainedModel]

    def __init__(self):
        super().__init__()
        self.net = self.kind(self.config).eval()


class Masked(Net):
    def forward(self, ids, mask):
        return self.net(input_ids=ids, attention_mask=mask)[0]


class Typed(Net):
    def forward(self, ids, mask, types):
        return self.net(input_ids=ids, attention_mask=mask, token_type_ids=types)[0]


class Placed(Net):
    def forward(self, ids, mask, places):
        return self.net(input_ids=ids, attention_mask=mask, position_ids=places)[0]


class Translating(Net):
    def forward(self, ids, mask, target):
        return self.net(input_ids=ids, attention_mask=mask, decoder_input_ids=target)[0]


class Bert(Typed):
    config, kind = hf.BertConfig(**USUAL), hf.BertForSequenceClassification


class Electra(Typed):
    config, kind = hf.ElectraConfig(**USUAL, embedding_size=16), hf.ElectraForTokenClassification


class Albert(Typed):
    config, kind = hf.AlbertConfig(**USUAL, embedding_size=8), hf.AlbertForMaskedLM


class Roberta(Masked):
    config, kind = hf.RobertaConfig(**USUAL, type_vocab_size=1), hf.RobertaForTokenClassification


class DistilBert(Masked):
    config = hf.DistilBertConfig(**TEXT, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=16)
    kind = hf.DistilBertForMaskedLM


class Mpnet(Masked):
    config, kind = hf.MPNetConfig(**USUAL), hf.MPNetForMaskedLM


class Gpt2(Placed):
    config, kind = hf.GPT2Config(**TEXT, n_embd=16, n_layer=2, n_head=2, n_positions=16), hf.GPT2LMHeadModel


class Opt(Masked):
    config = hf.OPTConfig(
        **TEXT,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=32,
        max_position_embeddings=16,
        word_embed_proj_dim=16,
    )
    kind = hf.OPTForCausalLM


class Llama(Placed):
    config, kind = hf.LlamaConfig(**USUAL, num_key_value_heads=1), hf.LlamaForCausalLM


class Bloom(Masked):
    config, kind = hf.BloomConfig(**TEXT, hidden_size=16, n_layer=2, n_head=2), hf.BloomForCausalLM


class T5(Translating):
    config = hf.T5Config(**TEXT, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
    kind = hf.T5ForConditionalGeneration


class Bart(Translating):
    config = hf.BartConfig(
        **TEXT,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=16,
    )
    kind = hf.BartForConditionalGeneration


IDS = {"ids": "int64", "mask": "int64"}
TYPED, PLACED, TRANSLATING = ({**IDS, name: "int64"} for name in ("types", "places", "target"))
ABSOLUTE, RELATIVE = "embeddings.position_embeddings", "layer.0.SelfAttention.relative_attention_bias"
KEEPS = {"mask": 1}
# The inputs of each; the value of a mask that keeps everything; the tables whose rows are positions. Llama rotates
# vectors by their positions, Bloom adds distances.
NETS = {
    Gpt2: (PLACED, KEEPS, ["net.transformer.wpe"]),
    Bert: (TYPED, KEEPS, [f"net.bert.{ABSOLUTE}"]),
    Electra: (TYPED, KEEPS, [f"net.electra.{ABSOLUTE}"]),
    Albert: (TYPED, KEEPS, [f"net.albert.{ABSOLUTE}"]),
    Roberta: (IDS, KEEPS, [f"net.roberta.{ABSOLUTE}"]),
    DistilBert: (IDS, KEEPS, [f"net.distilbert.{ABSOLUTE}"]),
    Mpnet: (IDS, KEEPS, [f"net.mpnet.{ABSOLUTE}", "net.mpnet.encoder.relative_attention_bias"]),
    Opt: (IDS, KEEPS, ["net.model.decoder.embed_positions"]),
    Llama: (PLACED, KEEPS, []),
    Bloom: (IDS, KEEPS, []),
    T5: (TRANSLATING, KEEPS, [f"net.{side}.block.0.{RELATIVE}" for side in ("encoder", "decoder")]),
    Bart: (TRANSLATING, KEEPS, [f"net.model.{side}.embed_positions" for side in ("encoder", "decoder")]),
}
WORD = {
    net.__name__: f"transformer_nets:{net.__name__}@"
    + ";".join(f"{name}:{dtype}:batch,{LENGTH}" for name, dtype in inputs.items())
    for net, (inputs, _, _) in NETS.items()
}


# ***** as they come *****


def bert():
    return hf.BertModel(hf.BertConfig(**SIZES, vocab_size=WORDS, max_position_embeddings=16))


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2))


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, vocab_size=WORDS, num_key_value_heads=1))


def t5():
    return hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=WORDS, d_model=16, d_kv=8, d_ff=32, num_layers=2))


def vit():
    return hf.ViTModel(hf.ViTConfig(**SIZES, image_size=16, patch_size=8))
