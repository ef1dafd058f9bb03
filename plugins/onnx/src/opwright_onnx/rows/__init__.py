"""Translations of ONNX operators to opwright operators; modules are imported at first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

AREAS: Final = {
    "attention": "Attention RotaryEmbedding",
    "casting": (
        "Bernoulli BitCast Cast CastLike Constant ConstantOfShape EyeLike RandomNormal "
        "RandomNormalLike RandomUniform RandomUniformLike Range Shape Size"
    ),
    "control": "If Loop Scan",
    "elementwise": (
        "Add And BitShift Clip CumProd CumSum Div Dropout Hardmax IsInf LogSoftmax Max Mean Min "
        "Mod Mul Or PRelu Pow Relu Selu Shrink Sign Softmax Sub Sum Xor ai.onnx.ml::Binarizer"
    ),
    "estimators": (
        "ai.onnx.ml::FeatureVectorizer ai.onnx.ml::Imputer ai.onnx.ml::LinearClassifier "
        "ai.onnx.ml::LinearRegressor ai.onnx.ml::Normalizer ai.onnx.ml::OneHotEncoder "
        "ai.onnx.ml::SVMRegressor ai.onnx.ml::Scaler"
    ),
    "fused_attention": (
        "com.microsoft::Attention com.microsoft::EmbedLayerNormalization "
        "com.microsoft::GroupQueryAttention com.microsoft::MultiHeadAttention"
    ),
    "images": "Col2Im DeformConv GridSample NonMaxSuppression RoiAlign",
    "indexing": (
        "Compress Gather GatherElements GatherND OneHot Scatter ScatterElements ScatterND "
        "TensorScatter ai.onnx.ml::ArrayFeatureExtractor"
    ),
    "microsoft": (
        "SimplifiedLayerNormalization com.microsoft::BiasGelu com.microsoft::FastGelu "
        "com.microsoft::FusedConv com.microsoft::FusedGemm com.microsoft::FusedMatMul "
        "com.microsoft::Gelu com.microsoft::QuickGelu com.microsoft::RotaryEmbedding "
        "com.microsoft::SimplifiedLayerNormalization com.microsoft::SkipLayerNormalization "
        "com.microsoft::SkipSimplifiedLayerNormalization com.microsoft::TransposeMatMul"
    ),
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LayerNormalization "
        "MeanVarianceNormalization RMSNormalization"
    ),
    "pooling": (
        "AveragePool Conv ConvTranspose GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool "
        "MaxPool MaxUnpool"
    ),
    "products": "Einsum Gemm MatMul",
    "quantization": (
        "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv "
        "QLinearMatMul QuantizeLinear com.microsoft::DequantizeLinear com.microsoft::MatMulNBits "
        "com.microsoft::QuantizeLinear"
    ),
    "quantized_layers": (
        "com.microsoft::DynamicQuantizeLSTM com.microsoft::DynamicQuantizeMatMul "
        "com.microsoft::MatMulIntegerToFloat com.microsoft::QAttention com.microsoft::QGemm "
        "com.microsoft::QLinearAdd com.microsoft::QLinearAveragePool "
        "com.microsoft::QLinearConcat com.microsoft::QLinearGlobalAveragePool "
        "com.microsoft::QLinearLeakyRelu com.microsoft::QLinearMul "
        "com.microsoft::QLinearSigmoid com.microsoft::QLinearSoftmax "
        "com.microsoft::QLinearWhere"
    ),
    "recurrent": "CausalConvWithState GRU LSTM RNN",
    "reductions": (
        "ArgMax ArgMin LpNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
        "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK Unique"
    ),
    "resizing": "Resize",
    "sequences": (
        "ConcatFromSequence Identity Optional OptionalGetElement OptionalHasElement SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
        "SplitToSequence"
    ),
    "shapes": (
        "CenterCropPad DepthToSpace Expand Flatten Pad Reshape ReverseSequence Slice SpaceToDepth "
        "Split Squeeze Tile Transpose Trilu Unsqueeze Upsample"
    ),
    "signals": "DFT MelWeightMatrix STFT",
    "texts": "StringConcat StringNormalizer StringSplit TfIdfVectorizer ai.onnx.ml::LabelEncoder",
    "training": (
        "ai.onnx.preview.training::Adagrad ai.onnx.preview.training::Adam "
        "ai.onnx.preview.training::Gradient ai.onnx.preview.training::Momentum"
    ),
    "trees": "ai.onnx.ml::TreeEnsembleClassifier ai.onnx.ml::TreeEnsembleRegressor",
}
"""The operators of each module of this package."""


class Areas(Mapping[str, Any]):
    """The rows of all modules, by operator."""

    def __init__(self) -> None:
        self._home = {name: area for area, names in AREAS.items() for name in names.split()}

    def __getitem__(self, name: str) -> Any:
        return import_module(f"{__name__}.{self._home[name]}").ROWS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


ROWS: Final = Areas()
