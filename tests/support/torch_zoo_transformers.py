"""Small networks of transformers, from their configurations, with random weights."""

import transformers
from torch_agreement import Case, integers, nn, normal

WORDS, LENGTH = 60, 12
SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
VISION = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}


def of(name, config, **options):
    """A class of transformers on a configuration."""
    return lambda: getattr(transformers, name)(getattr(transformers, config)(**options))


def tokens(**more):
    """Words, the second sentence shorter than the first, and labels if asked for."""

    def made():
        mask = integers(2, LENGTH, below=1) + 1
        mask[1, LENGTH - 3 :] = 0
        given = {"input_ids": integers(2, LENGTH, below=WORDS - 2) + 2, "attention_mask": mask}
        return given | {name: integers(*shape, below=below, seed=9) for name, (shape, below) in more.items()}

    return made


def pixels(size=32, channels=3, **more):
    return lambda: (
        {"pixel_values": normal(2, channels, size, size)}
        | {name: integers(*shape, below=below) for name, (shape, below) in more.items()}
    )


SENTENCE = tokens(labels=((2,), 2))
NEXT = tokens(labels=((2, LENGTH), WORDS))
GROUPED = SMALL | {
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}


class WithoutCache(nn.Module):
    """A decoder as it is trained: nothing is kept between calls."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        inner.config.use_cache = False

    def forward(self, **inputs):
        return self.inner(**inputs)


def trained(name, config, **options):
    return lambda: WithoutCache(of(name, config, **options)())


def clip():
    return transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config=SMALL | {"max_position_embeddings": 32, "projection_dim": 16, "eos_token_id": 2},
            vision_config=VISION | {"projection_dim": 16},
            projection_dim=16,
        )
    )


def detr():
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    return transformers.DetrForObjectDetection(
        transformers.DetrConfig(
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=backbone,
            num_queries=5,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
        )
    )


WAV2VEC2 = {
    "vocab_size": 20,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
    "layerdrop": 0.0,
}
WHISPER = {
    "vocab_size": WORDS,
    "num_mel_bins": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "d_model": 32,
    "max_source_positions": 40,
    "max_target_positions": 20,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
BART = {
    "vocab_size": WORDS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
T5 = {
    "vocab_size": WORDS,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}

CASES = (
    Case("bert", of("BertForSequenceClassification", "BertConfig", **SMALL), SENTENCE, in_ci=True),
    Case("bert_masked", of("BertForMaskedLM", "BertConfig", **SMALL), NEXT),
    Case("roberta", of("RobertaForSequenceClassification", "RobertaConfig", **SMALL), SENTENCE),
    Case(
        "distilbert",
        of(
            "DistilBertForSequenceClassification",
            "DistilBertConfig",
            vocab_size=WORDS,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=48,
        ),
        SENTENCE,
    ),
    Case(
        "albert", of("AlbertForSequenceClassification", "AlbertConfig", embedding_size=16, **SMALL), SENTENCE
    ),
    Case(
        "electra",
        of("ElectraForPreTraining", "ElectraConfig", embedding_size=16, **SMALL),
        tokens(labels=((2, LENGTH), 2)),
    ),
    Case("deberta", of("DebertaV2ForSequenceClassification", "DebertaV2Config", **SMALL), SENTENCE),
    Case("mpnet", of("MPNetModel", "MPNetConfig", **SMALL), tokens()),
    Case(
        "gpt2",
        trained(
            "GPT2LMHeadModel",
            "GPT2Config",
            vocab_size=WORDS,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=32,
            bos_token_id=1,
            eos_token_id=1,
        ),
        NEXT,
        in_ci=True,
    ),
    Case("gpt_neox", trained("GPTNeoXForCausalLM", "GPTNeoXConfig", **SMALL), NEXT),
    Case(
        "opt",
        trained(
            "OPTForCausalLM",
            "OPTConfig",
            vocab_size=WORDS,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=48,
            word_embed_proj_dim=32,
            max_position_embeddings=32,
        ),
        NEXT,
    ),
    Case(
        "bloom",
        trained(
            "BloomForCausalLM",
            "BloomConfig",
            vocab_size=WORDS,
            hidden_size=32,
            n_layer=2,
            n_head=4,
            bos_token_id=1,
            eos_token_id=1,
        ),
        NEXT,
    ),
    Case("llama", trained("LlamaForCausalLM", "LlamaConfig", **GROUPED), NEXT, in_ci=True),
    Case("mistral", trained("MistralForCausalLM", "MistralConfig", sliding_window=8, **GROUPED), NEXT),
    Case("qwen2", trained("Qwen2ForCausalLM", "Qwen2Config", **GROUPED), NEXT),
    Case("gemma", trained("GemmaForCausalLM", "GemmaConfig", head_dim=8, **GROUPED), NEXT),
    Case("phi", trained("PhiForCausalLM", "PhiConfig", **GROUPED), NEXT),
    Case(
        "mixtral",
        trained(
            "MixtralForCausalLM",
            "MixtralConfig",
            num_local_experts=4,
            experts_implementation="eager",
            **GROUPED,
        ),
        NEXT,
    ),
    Case("t5_encoder", of("T5EncoderModel", "T5Config", **T5), tokens()),
    Case("t5", trained("T5ForConditionalGeneration", "T5Config", **T5), NEXT),
    Case("bart", trained("BartForConditionalGeneration", "BartConfig", **BART), NEXT),
    Case(
        "whisper",
        trained("WhisperForConditionalGeneration", "WhisperConfig", **WHISPER),
        lambda: {"input_features": normal(2, 16, 80), "labels": integers(2, 7, below=WORDS)},
    ),
    Case(
        "wav2vec2",
        of("Wav2Vec2Model", "Wav2Vec2Config", **WAV2VEC2),
        lambda: {"input_values": normal(2, 800)},
        leaves=False,
    ),
    Case("vit", of("ViTForImageClassification", "ViTConfig", **VISION), pixels(labels=((2,), 2))),
    Case("deit", of("DeiTForImageClassification", "DeiTConfig", **VISION), pixels(labels=((2,), 2))),
    Case(
        "dinov2",
        of("Dinov2Model", "Dinov2Config", **{k: v for k, v in VISION.items() if k != "intermediate_size"}),
        pixels(),
    ),
    Case("beit", of("BeitModel", "BeitConfig", **VISION), pixels()),
    Case(
        "swin",
        of(
            "SwinForImageClassification",
            "SwinConfig",
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        ),
        pixels(labels=((2,), 2)),
    ),
    Case(
        "convnext",
        of(
            "ConvNextForImageClassification",
            "ConvNextConfig",
            hidden_sizes=[8, 16],
            depths=[1, 1],
            num_stages=2,
        ),
        pixels(labels=((2,), 2)),
    ),
    Case(
        "convnextv2",
        of("ConvNextV2Model", "ConvNextV2Config", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
        pixels(),
    ),
    Case(
        "segformer",
        of(
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            hidden_sizes=[8, 16],
            depths=[1, 1],
            num_encoder_blocks=2,
            sr_ratios=[2, 1],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
        ),
        pixels(),
    ),
    Case(
        "mobilevit",
        of(
            "MobileViTModel",
            "MobileViTConfig",
            image_size=64,
            hidden_sizes=[16, 24, 32],
            neck_hidden_sizes=[8, 8, 12, 16, 24, 32, 48],
        ),
        pixels(64),
    ),
    Case(
        "poolformer",
        of("PoolFormerModel", "PoolFormerConfig", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1]),
        pixels(64),
    ),
    Case("clip", clip, lambda: tokens()() | pixels()()),
    Case("detr", detr, pixels(64)),
)
