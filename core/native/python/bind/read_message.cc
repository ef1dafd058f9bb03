// Reads the protobuf wire format into dictionaries without importing protobuf, since the import
// takes longer than reading most programs. The reader is stricter than protobuf's own: a known
// field must have its own wire type, and a field that is not repeated must occur at most once.
#include <cstdint>
#include <cstring>

#include "python/bind/handles.h"

namespace opwright {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

constexpr int64_t kMaxField = (int64_t{1} << 29) - 1;

constexpr int kMaxDepth = 100;  // as in protobuf

struct Bytes {
  const uint8_t* next;
  const uint8_t* end;
  int depth = 0;

  size_t left() const { return static_cast<size_t>(end - next); }

  void Need(uint64_t count) const {
    if (count > left()) throw py::value_error("a field is longer than its message");
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      Need(1);
      const uint8_t byte = *next++;
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw py::value_error("a number is longer than 64 bits");
  }

  template <typename T>
  T Fixed() {
    Need(sizeof(T));
    T value;
    std::memcpy(&value, next, sizeof(T));
    next += sizeof(T);
    return value;
  }

  Bytes Block() {
    const uint64_t size = Varint();
    Need(size);
    const Bytes block{next, next + size, depth + 1};
    next += size;
    return block;
  }
};

void Skip(Bytes& bytes, uint32_t wire) {
  if (wire == kVarint) {
    bytes.Varint();
  } else if (wire == kFixed64) {
    bytes.Fixed<uint64_t>();
  } else if (wire == kLength) {
    bytes.Block();
  } else if (wire == kFixed32) {
    bytes.Fixed<uint32_t>();
  } else {
    throw py::value_error("a field has an unknown wire type");
  }
}

// One field of a schema: a tuple (name, kind, whether it is repeated, schema of its messages).
struct Field {
  explicit Field(PyObject* given) : field(py::reinterpret_borrow<py::tuple>(given)) {
    kind = py::cast<std::string>(field[1]).at(0);
    repeated = py::cast<bool>(field[2]);
  }

  uint32_t wire() const {
    if (kind == 's' || kind == 'y' || kind == 'm') return kLength;
    if (kind == 'd') return kFixed64;
    return kind == 'f' || kind == 'g' ? kFixed32 : kVarint;
  }

  py::tuple field;
  char kind;
  bool repeated;
};

py::dict ReadFields(Bytes bytes, const py::dict& schema);

py::object ReadValue(Bytes& bytes, const Field& field) {
  if (field.kind == 'm') return ReadFields(bytes.Block(), field.field[3]);
  if (field.kind == 'g') return py::float_(bytes.Fixed<float>());
  if (field.kind == 'y') {
    const Bytes block = bytes.Block();
    return py::bytes(reinterpret_cast<const char*>(block.next), block.left());
  }
  if (field.kind == 'd') return py::float_(bytes.Fixed<double>());
  if (field.kind == 'f') return py::int_(bytes.Fixed<uint32_t>());
  if (field.kind == 's') {
    const Bytes text = bytes.Block();
    const auto* begin = reinterpret_cast<const char*>(text.next);
    PyObject* made = PyUnicode_DecodeUTF8(begin, static_cast<Py_ssize_t>(text.left()), "strict");
    if (made == nullptr) throw py::error_already_set();  // UnicodeDecodeError is a ValueError
    return py::reinterpret_steal<py::object>(made);
  }
  const uint64_t number = bytes.Varint();
  if (field.kind == 'b') return py::bool_(number != 0);
  if (field.kind == 'u') return py::int_(number);
  const auto signed_number = static_cast<int64_t>(number);
  if (field.kind == 'i' && signed_number != static_cast<int32_t>(signed_number)) {
    throw py::value_error("a number is longer than 32 bits");
  }
  return py::int_(signed_number);
}

void ReadField(Bytes& bytes, uint32_t wire, const Field& field, const py::dict& message) {
  const py::handle name = field.field[0];
  if (!field.repeated) {
    if (wire != field.wire()) throw py::value_error("a field has another type");
    if (message.contains(name)) throw py::value_error("a field is written twice");
    message[name] = ReadValue(bytes, field);
    return;
  }
  if (!message.contains(name)) message[name] = py::list();
  py::list values = message[name];
  if (wire == field.wire()) {
    values.append(ReadValue(bytes, field));
    return;
  }
  if (wire != kLength) throw py::value_error("a field has another type");
  for (Bytes packed = bytes.Block(); packed.left() > 0;) values.append(ReadValue(packed, field));
}

py::dict ReadFields(Bytes bytes, const py::dict& schema) {
  if (bytes.depth > kMaxDepth) throw py::value_error("messages are nested too deeply");
  py::dict message;
  while (bytes.left() > 0) {
    const uint64_t tag = bytes.Varint();
    const auto number = static_cast<int64_t>(tag >> 3);
    const auto wire = static_cast<uint32_t>(tag & 7);
    if (number < 1 || number > kMaxField) throw py::value_error("a field has an unknown number");
    PyObject* known = PyDict_GetItemWithError(schema.ptr(), py::int_(number).ptr());
    if (known != nullptr) {
      ReadField(bytes, wire, Field(known), message);
    } else if (PyErr_Occurred() != nullptr) {
      throw py::error_already_set();
    } else {
      Skip(bytes, wire);
    }
  }
  return message;
}

}  // namespace

void BindReadMessage(py::module_& module) {
  module.def(
      "read_message",
      [](const py::bytes& data, const py::dict& schema) {
        char* begin = nullptr;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(data.ptr(), &begin, &size) != 0) {
          throw py::error_already_set();
        }
        const auto* first = reinterpret_cast<const uint8_t*>(begin);
        return ReadFields({first, first + size}, schema);
      },
      py::arg("data"), py::arg("schema"));
}

}  // namespace opwright
