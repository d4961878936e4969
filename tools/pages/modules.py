"""Sixty networks of libraries as they come, by their configurations: which of them each runtime takes.

    python tools/pages/modules.py [--only WORD] [--folder FOLDER] [--stored] > docs/modules.md

Weights are random, nothing is downloaded. Networks of a library that is not installed are left out, and counted. The
records are kept in FOLDER; the same command again resumes; with --stored it runs nothing and shows the last records.
"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

RUNTIMES = ("torch", "onnxruntime", "openvino", "tensorflow", "jax")
MODES = ("forward", "step")
IMAGE = "x:float32:batch,3,64,64"
NODES = "x:float32:batch,8;edge_index:int64:2,24;edge_index=0:6"
# More samples than usual: nodes that edges go between, and for a norm over few numbers.
BATCHES = {"torch_geometric": 6, "timm mobilenetv4": 8}
LATENT = "sample:float32:batch,4,8,8"

TEXT = {"vocab_size": 120, "max_position_embeddings": 64, "pad_token_id": 1}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SMALL = TEXT | SIZES
CAUSAL = SMALL | {"num_key_value_heads": 2, "head_dim": 8}
SEEING = {**SIZES, "image_size": 32, "patch_size": 8}
HEARING = {
    **SIZES,
    **{"vocab_size": 32, "conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 8]},
    **{"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
}
SPEECH = "input_values:float32:batch,800"
SIDES = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
SIDES |= {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}

# Class -> model type, what else its configuration holds, its inputs if they are not the usual ones.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "BertForSequenceClassification": ("bert", SMALL, ""),
    "RobertaForTokenClassification": ("roberta", SMALL, ""),
    "DistilBertForMaskedLM": ("distilbert", TEXT | {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}, ""),
    "AlbertForMaskedLM": ("albert", SMALL | {"embedding_size": 16}, ""),
    "ElectraForTokenClassification": ("electra", SMALL | {"embedding_size": 16}, ""),
    "DebertaV2ForSequenceClassification": (
        "deberta-v2",
        SMALL | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        "",
    ),
    "MPNetForMaskedLM": ("mpnet", SMALL, ""),
    "LayoutLMForTokenClassification": ("layoutlm", SMALL, ""),
    "GPT2LMHeadModel": ("gpt2", {"vocab_size": 120, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, ""),
    "GPTNeoXForCausalLM": ("gpt_neox", SMALL, ""),
    "OPTForCausalLM": ("opt", SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 32}, ""),
    "BloomForCausalLM": ("bloom", {"vocab_size": 120, "hidden_size": 32, "n_layer": 2, "n_head": 4}, ""),
    "FalconForCausalLM": ("falcon", SMALL, ""),
    "LlamaForCausalLM": ("llama", CAUSAL, ""),
    "MistralForCausalLM": ("mistral", CAUSAL | {"sliding_window": 8}, ""),
    "MixtralForCausalLM": ("mixtral", CAUSAL | {"num_local_experts": 4}, ""),
    "Qwen2ForCausalLM": ("qwen2", CAUSAL, ""),
    "Qwen3ForCausalLM": ("qwen3", CAUSAL, ""),
    "GemmaForCausalLM": ("gemma", CAUSAL, ""),
    "PhiForCausalLM": ("phi", SMALL, ""),
    "T5ForConditionalGeneration": (
        "t5",
        {"vocab_size": 120, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
        "",
    ),
    "BartForConditionalGeneration": ("bart", TEXT | SIDES, ""),
    "MambaForCausalLM": ("mamba", {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}, ""),
    "ViTForImageClassification": ("vit", SEEING, ""),
    "SwinForImageClassification": (
        "swin",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
        "",
    ),
    "SegformerForSemanticSegmentation": (
        "segformer",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "decoder_hidden_size": 32},
        "pixel_values:float32:batch,3,64,64",
    ),
    "CLIPModel": (
        "clip",
        {"text_config": SMALL | {"eos_token_id": 119}, "vision_config": SEEING, "projection_dim": 16},
        "",
    ),
    "WhisperForConditionalGeneration": (
        "whisper",
        SIDES
        | {"vocab_size": 120, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 64}
        | {
            "pad_token_id": 1,
            "decoder_start_token_id": 2,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "suppress_tokens": None,
        }
        | {"begin_suppress_tokens": None},
        "",
    ),
    "Wav2Vec2ForCTC": ("wav2vec2", HEARING, SPEECH),
    "HubertForCTC": ("hubert", HEARING, SPEECH),
    "ASTForAudioClassification": (
        "audio-spectrogram-transformer",
        SIZES | {"max_length": 64, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
        "",
    ),
}

# Names and arguments, at 64 by 64 pixels.
TIMM = (
    "resnet18",
    "resnext26ts",
    "regnetx_002",
    "densenet121",
    "convnext_atto",
    "mobilenetv3_small_050",
    "mobilenetv4_conv_small",
    "efficientnet_b0",
    "ghostnet_050",
    "lcnet_050",
    "repvgg_a0",
    "mobilevit_xxs",
    "edgenext_xx_small",
    "poolformer_s12",
    "fastvit_t8",
    "vit_tiny_patch16_224(img_size=64)",
    "swin_tiny_patch4_window7_224(img_size=64, window_size=4)",
    "mixer_s32_224(img_size=64)",
    "resmlp_12_224(img_size=64)",
    "eva02_tiny_patch14_224(img_size=56)",
)
FIFTY_SIX = "x:float32:batch,3,56,56"

OTHERS = {
    "torchvision:shufflenet_v2_x0_5": IMAGE,
    "torchvision:mnasnet0_5": IMAGE,
    "torchvision:squeezenet1_1": IMAGE,
    "torchvision:lraspp_mobilenet_v3_large": IMAGE,
    "torchvision:fasterrcnn_mobilenet_v3_large_320_fpn": IMAGE.replace("x:", "images:"),
    "diffusers:UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, "
    "block_out_channels=(32, 32), down_block_types=('DownBlock2D', 'AttnDownBlock2D'), "
    "up_block_types=('AttnUpBlock2D', 'UpBlock2D'))": "sample:float32:batch,3,16,16;timestep:int64:batch",
    "diffusers:UNet2DConditionModel(sample_size=8, layers_per_block=1, block_out_channels=(32, 64), "
    "down_block_types=('DownBlock2D', 'CrossAttnDownBlock2D'), up_block_types=('CrossAttnUpBlock2D', 'UpBlock2D'), "
    "cross_attention_dim=32, attention_head_dim=8)": f"{LATENT};timestep:int64:batch;"
    "encoder_hidden_states:float32:batch,7,32",
    "diffusers:AutoencoderKL(block_out_channels=(32, 32), down_block_types=('DownEncoderBlock2D', "
    "'DownEncoderBlock2D'), up_block_types=('UpDecoderBlock2D', 'UpDecoderBlock2D'), "
    "sample_size=16)": "sample:float32:batch,3,16,16",
    "diffusers:DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=8, "
    "num_layers=2, sample_size=8, patch_size=2, num_embeds_ada_norm=20)": "hidden_states:float32:batch,4,8,8;"
    "timestep:int64:batch;class_labels:int64:batch",
    "diffusers:AutoencoderTiny(encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16), "
    "num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1))": "sample:float32:batch,3,16,16",
    "torch_geometric.nn:GCN(in_channels=8, hidden_channels=16, num_layers=2, out_channels=3)": NODES,
    "torch_geometric.nn:GraphSAGE(in_channels=8, hidden_channels=16, num_layers=2, out_channels=3)": NODES,
    "torch_geometric.nn:GIN(in_channels=8, hidden_channels=16, num_layers=2, out_channels=3)": NODES,
    "torch_geometric.nn:GAT(in_channels=8, hidden_channels=16, num_layers=2, out_channels=3)": NODES,
    "torch_geometric.nn:EdgeCNN(in_channels=8, hidden_channels=16, num_layers=2, out_channels=3)": NODES,
}


def words(folder: Path) -> dict[str, str]:
    """Title -> the word of every network; configurations are written into the folder."""
    listed = {}
    for kind, (family, settings, inputs) in TRANSFORMERS.items():
        place = folder / family
        place.mkdir(parents=True, exist_ok=True)
        settings = {"model_type": family, "architectures": [kind], **settings}
        (place / "config.json").write_text(json.dumps(settings, indent=1))
        listed[f"transformers {kind}"] = f"hf:{place}" + (f"@{inputs}" if inputs else "")
    for name in TIMM:
        listed[f"timm {name.partition('(')[0]}"] = f"timm:{name}@{FIFTY_SIX if '=56' in name else IMAGE}"
    for place, inputs in OTHERS.items():
        library, _, name = place.partition(":")
        listed[f"{library.partition('.')[0]} {name.partition('(')[0]}"] = f"{place}@{inputs}"
    return {title: word for title, word in listed.items() if importlib.util.find_spec(title.partition(" ")[0])}


def check(title: str, word: str, out: Path, timeout: int) -> list[dict[str, Any]]:
    """The rows of `xbench check` of one network; one row for all where the command refuses it."""
    options = [each for runtime in RUNTIMES for each in ("--runtime", runtime)]
    options += [each for mode in MODES for each in ("--mode", mode)]
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "check", word, *options]
    command += ["--json", "--out", str(out), "--timeout", str(timeout)]
    command += [f"--batch={batch}" for beginning, batch in BATCHES.items() if title.startswith(beginning)]
    done = subprocess.run(command, capture_output=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    if rows:
        return rows
    message = whole(done.stderr) or "nothing was printed"
    return [{"runtime": r, "mode": m, "status": "REFUSED", "message": message} for m in MODES for r in RUNTIMES]


def whole(printed: str) -> str:
    """The last message of a command, which may be folded into several lines."""
    lines = printed.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"[A-Za-z_.]+: ", line)]
    return " ".join(line.strip() for line in lines[starts[-1] if starts else -1 :])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="networks whose title holds this word")
    parser.add_argument("--folder", type=Path, default=Path("modules"))
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--stored", action="store_true", help="run nothing")
    options = parser.parse_args()
    listed = {t: w for t, w in words(options.folder / "configs").items() if options.only in t}
    if options.stored:
        print(page(stored(listed, options.folder / "results" / "check.jsonl")))
        return 0
    results = {}
    for number, (title, word) in enumerate(listed.items(), 1):
        results[title] = check(title, word, options.folder / "results", options.timeout)
        good = {mode: sum(r["status"] == "PASS" for r in results[title] if r["mode"] == mode) for mode in MODES}
        said = ", ".join(f"{mode} {count} of {len(RUNTIMES)}" for mode, count in good.items())
        print(f"[{number}/{len(listed)}] {title}: {said}", file=sys.stderr, flush=True)
    print(page(results))
    return 0


def stored(listed: dict[str, str], file: Path) -> dict[str, list[dict[str, Any]]]:
    """The last record of every cell, as rows; a network that was refused has none."""
    last: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        last[tuple(record["case"][name] for name in ("model", "mode", "runtime"))] = record
    cells = [(mode, runtime) for mode in MODES for runtime in RUNTIMES]
    return {
        title: [
            {name: record[name] for name in ("status", "message", "time")} | {"runtime": runtime, "mode": mode}
            for mode, runtime in cells
            if (record := last.get((word, mode, runtime)))
        ]
        for title, word in listed.items()
    }


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """The table, what it counts, and the line of each network that something does not take."""
    lines = [
        "# Networks of libraries",
        "",
        "Made by `make modules`: `xbench check` of networks as their libraries make them.",
    ]
    lines += ["Weights are random. A cell says forward and step: ✓ PASS, else the status; - was refused."]
    if days := sorted({row["time"][:10] for rows in results.values() for row in rows if "time" in row}):
        lines += [f"Measured on {', '.join(days)}; xbench may have changed between records."]
    lines.append("")
    lines += [f"| network | {' | '.join(RUNTIMES)} |", "|---|" + "---|" * len(RUNTIMES)]
    notes, counts = [], dict.fromkeys(MODES, 0)
    for title, rows in results.items():
        status = {(r["runtime"], r["mode"]): r["status"] for r in rows}
        cells = [" ".join(_sign(status.get((r, m), "-")) for m in MODES) for r in RUNTIMES]
        lines.append(f"| {title} | {' | '.join(cells)} |")
        messages = {r["message"]: f"{r['runtime']} {r['mode']}" for r in reversed(rows) if r["status"] != "PASS"}
        notes += [f"- {title}, {where}: {message}" for message, where in reversed(messages.items())]
        notes += [] if rows else [f"- {title} was refused, and nothing of it recorded: `xbench check` says why"]
        for mode in MODES:
            counts[mode] += all(status.get((r, mode)) == "PASS" for r in RUNTIMES)
    first = sum(all(_passes(rows, r) for r in RUNTIMES[:3]) for rows in results.values())
    lines += [
        "",
        f"{len(results)} networks. Forward on {', '.join(RUNTIMES[:3])}: {first}; on all five: {counts['forward']}.",
    ]
    lines += [f"A training step on all five: {counts['step']}.", "", *notes]
    return "\n".join(lines)


def _passes(rows: list[dict[str, Any]], runtime: str) -> bool:
    return any(r["status"] == "PASS" for r in rows if r["runtime"] == runtime and r["mode"] == "forward")


def _sign(status: str) -> str:
    return "✓" if status == "PASS" else status


if __name__ == "__main__":
    sys.exit(main())
