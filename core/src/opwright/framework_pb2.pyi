from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttrType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTR_TYPE_UNSPECIFIED: _ClassVar[AttrType]
    INT: _ClassVar[AttrType]
    FLOAT: _ClassVar[AttrType]
    STRING: _ClassVar[AttrType]
    BOOL: _ClassVar[AttrType]
    INTS: _ClassVar[AttrType]
    FLOATS: _ClassVar[AttrType]
    STRINGS: _ClassVar[AttrType]
    BOOLS: _ClassVar[AttrType]
    BLOCK: _ClassVar[AttrType]
ATTR_TYPE_UNSPECIFIED: AttrType
INT: AttrType
FLOAT: AttrType
STRING: AttrType
BOOL: AttrType
INTS: AttrType
FLOATS: AttrType
STRINGS: AttrType
BOOLS: AttrType
BLOCK: AttrType

class IntList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class FloatList(_message.Message):
    __slots__ = ("values", "rests")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    RESTS_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    rests: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[float]] = ..., rests: _Optional[_Iterable[int]] = ...) -> None: ...

class StringList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class BoolList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, values: _Optional[_Iterable[bool]] = ...) -> None: ...

class AttrValue(_message.Message):
    __slots__ = ("i", "f", "s", "b", "ints", "floats", "strings", "bools", "block", "rest")
    I_FIELD_NUMBER: _ClassVar[int]
    F_FIELD_NUMBER: _ClassVar[int]
    S_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    BOOLS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    i: int
    f: float
    s: str
    b: bool
    ints: IntList
    floats: FloatList
    strings: StringList
    bools: BoolList
    block: int
    rest: int
    def __init__(self, i: _Optional[int] = ..., f: _Optional[float] = ..., s: _Optional[str] = ..., b: bool = ..., ints: _Optional[_Union[IntList, _Mapping]] = ..., floats: _Optional[_Union[FloatList, _Mapping]] = ..., strings: _Optional[_Union[StringList, _Mapping]] = ..., bools: _Optional[_Union[BoolList, _Mapping]] = ..., block: _Optional[int] = ..., rest: _Optional[int] = ...) -> None: ...

class AttrProto(_message.Message):
    __slots__ = ("name", "comment", "type", "default", "min", "max", "min_exclusive", "max_exclusive", "allowed", "required", "length", "operand", "added")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MIN_EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    MAX_EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    name: str
    comment: str
    type: AttrType
    default: AttrValue
    min: AttrValue
    max: AttrValue
    min_exclusive: bool
    max_exclusive: bool
    allowed: _containers.RepeatedCompositeFieldContainer[AttrValue]
    required: bool
    length: int
    operand: bool
    added: bool
    def __init__(self, name: _Optional[str] = ..., comment: _Optional[str] = ..., type: _Optional[_Union[AttrType, str]] = ..., default: _Optional[_Union[AttrValue, _Mapping]] = ..., min: _Optional[_Union[AttrValue, _Mapping]] = ..., max: _Optional[_Union[AttrValue, _Mapping]] = ..., min_exclusive: bool = ..., max_exclusive: bool = ..., allowed: _Optional[_Iterable[_Union[AttrValue, _Mapping]]] = ..., required: bool = ..., length: _Optional[int] = ..., operand: bool = ..., added: bool = ...) -> None: ...

class VarProto(_message.Message):
    __slots__ = ("name", "comment", "duplicable", "optional", "intermediate", "shape_only", "dtypes", "same_as", "aliases")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    DUPLICABLE_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_FIELD_NUMBER: _ClassVar[int]
    INTERMEDIATE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_ONLY_FIELD_NUMBER: _ClassVar[int]
    DTYPES_FIELD_NUMBER: _ClassVar[int]
    SAME_AS_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    name: str
    comment: str
    duplicable: bool
    optional: bool
    intermediate: bool
    shape_only: bool
    dtypes: _containers.RepeatedScalarFieldContainer[str]
    same_as: str
    aliases: str
    def __init__(self, name: _Optional[str] = ..., comment: _Optional[str] = ..., duplicable: bool = ..., optional: bool = ..., intermediate: bool = ..., shape_only: bool = ..., dtypes: _Optional[_Iterable[str]] = ..., same_as: _Optional[str] = ..., aliases: _Optional[str] = ...) -> None: ...

class OpProto(_message.Message):
    __slots__ = ("type", "comment", "inputs", "outputs", "attrs", "version", "dispatch", "dynamic_output")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    type: str
    comment: str
    inputs: _containers.RepeatedCompositeFieldContainer[VarProto]
    outputs: _containers.RepeatedCompositeFieldContainer[VarProto]
    attrs: _containers.RepeatedCompositeFieldContainer[AttrProto]
    version: int
    dispatch: str
    dynamic_output: bool
    def __init__(self, type: _Optional[str] = ..., comment: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[VarProto, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[VarProto, _Mapping]]] = ..., attrs: _Optional[_Iterable[_Union[AttrProto, _Mapping]]] = ..., version: _Optional[int] = ..., dispatch: _Optional[str] = ..., dynamic_output: bool = ...) -> None: ...

class SlotDesc(_message.Message):
    __slots__ = ("slot", "names")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    slot: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slot: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class OpDesc(_message.Message):
    __slots__ = ("type", "inputs", "outputs", "attrs", "version")
    class AttrsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttrValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttrValue, _Mapping]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    type: str
    inputs: _containers.RepeatedCompositeFieldContainer[SlotDesc]
    outputs: _containers.RepeatedCompositeFieldContainer[SlotDesc]
    attrs: _containers.MessageMap[str, AttrValue]
    version: int
    def __init__(self, type: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[SlotDesc, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[SlotDesc, _Mapping]]] = ..., attrs: _Optional[_Mapping[str, AttrValue]] = ..., version: _Optional[int] = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("dims",)
    DIMS_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dims: _Optional[_Iterable[int]] = ...) -> None: ...

class VarDesc(_message.Message):
    __slots__ = ("name", "shape", "dtype", "persistable", "is_parameter", "stop_gradient", "frozen", "is_data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    PERSISTABLE_FIELD_NUMBER: _ClassVar[int]
    IS_PARAMETER_FIELD_NUMBER: _ClassVar[int]
    STOP_GRADIENT_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    IS_DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: Shape
    dtype: str
    persistable: bool
    is_parameter: bool
    stop_gradient: bool
    frozen: bool
    is_data: bool
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Union[Shape, _Mapping]] = ..., dtype: _Optional[str] = ..., persistable: bool = ..., is_parameter: bool = ..., stop_gradient: bool = ..., frozen: bool = ..., is_data: bool = ...) -> None: ...

class BlockDesc(_message.Message):
    __slots__ = ("idx", "parent_idx", "vars", "ops")
    IDX_FIELD_NUMBER: _ClassVar[int]
    PARENT_IDX_FIELD_NUMBER: _ClassVar[int]
    VARS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    idx: int
    parent_idx: int
    vars: _containers.RepeatedCompositeFieldContainer[VarDesc]
    ops: _containers.RepeatedCompositeFieldContainer[OpDesc]
    def __init__(self, idx: _Optional[int] = ..., parent_idx: _Optional[int] = ..., vars: _Optional[_Iterable[_Union[VarDesc, _Mapping]]] = ..., ops: _Optional[_Iterable[_Union[OpDesc, _Mapping]]] = ...) -> None: ...

class Requirement(_message.Message):
    __slots__ = ("plugin", "distribution", "version")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    distribution: str
    version: str
    def __init__(self, plugin: _Optional[str] = ..., distribution: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ProgramDesc(_message.Message):
    __slots__ = ("format", "format_version", "blocks", "requires", "seed", "next_stream", "feeds", "fetches", "checksum")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    NEXT_STREAM_FIELD_NUMBER: _ClassVar[int]
    FEEDS_FIELD_NUMBER: _ClassVar[int]
    FETCHES_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    format: str
    format_version: int
    blocks: _containers.RepeatedCompositeFieldContainer[BlockDesc]
    requires: _containers.RepeatedCompositeFieldContainer[Requirement]
    seed: int
    next_stream: int
    feeds: _containers.RepeatedScalarFieldContainer[str]
    fetches: _containers.RepeatedScalarFieldContainer[str]
    checksum: int
    def __init__(self, format: _Optional[str] = ..., format_version: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[BlockDesc, _Mapping]]] = ..., requires: _Optional[_Iterable[_Union[Requirement, _Mapping]]] = ..., seed: _Optional[int] = ..., next_stream: _Optional[int] = ..., feeds: _Optional[_Iterable[str]] = ..., fetches: _Optional[_Iterable[str]] = ..., checksum: _Optional[int] = ...) -> None: ...
