#include "python/plugins/python_device.h"

#include <string>
#include <utility>

#include "runtime/device/open_devices.h"
#include "runtime/library/host.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// The table of one device, with the strings that it points to. The Python objects of the table are
// released with the GIL held, or never if the interpreter has exited.
struct PythonTable {
  ow_device table{};
  std::string name;
  PyObject* object = nullptr;
  PyObject* source = nullptr;  // kept alive because its address is the key of the open device
  int32_t number = 0;

  // Acquiring the GIL throws if Python cannot create a state for this thread; that is fatal.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~PythonTable() {
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire gil;
    Py_XDECREF(object);
    Py_XDECREF(source);
  }
};

// Formats an exception as one line, without its traceback; MemoryError becomes "out of memory".
std::string TextOf(const py::error_already_set& raised) {
  std::string text = py::str(raised.value()).cast<std::string>();
  if (raised.matches(PyExc_MemoryError) && !text.empty()) return text;
  return std::string(Py_TYPE(raised.value().ptr())->tp_name) + ": " + text;
}

// Runs a body that may raise; converts an exception to a status and a message.
template <typename Body>
int32_t Guarded(const ow_error* error, const Body& body) {
  const py::gil_scoped_acquire gil;
  // A step may fail while a Python error is already set, which this code must not replace.
  const py::error_scope scope;
  try {
    body();
    return OW_OK;
  } catch (py::error_already_set& raised) {
    WriteMessage(error->message, error->message_bytes, TextOf(raised).c_str());
    return raised.matches(PyExc_MemoryError) ? OW_OUT_OF_MEMORY : OW_ERROR;
  } catch (const std::exception& raised) {
    WriteMessage(error->message, error->message_bytes, raised.what());
    return OW_ERROR;
  }
}

py::handle ObjectOf(void* state) { return static_cast<PyObject*>(state); }

py::int_ Handle(const void* pointer) {
  return py::reinterpret_steal<py::int_>(PyLong_FromVoidPtr(const_cast<void*>(pointer)));
}

// The number of devices is unknown, but this device exists, since it is already open.
int32_t Count(const ow_device* device, int32_t* n, const ow_error*) {
  *n = static_cast<PythonTable*>(device->user)->number + 1;
  return OW_OK;
}

int32_t Open(const ow_device* device, int32_t, void** state, const ow_error*) {
  *state = static_cast<PythonTable*>(device->user)->object;
  return OW_OK;
}

void Close(void*) {}

int32_t Allocate(void* state, uint64_t bytes, void** handle, const ow_error* error) {
  return Guarded(error, [&] {
    const py::object made = ObjectOf(state).attr("allocate")(bytes);
    *handle = PyLong_AsVoidPtr(made.ptr());
    if (*handle == nullptr && PyErr_Occurred()) throw py::error_already_set();
  });
}

void Free(void* state, void* handle) {
  if (!Py_IsInitialized()) return;
  char text[512] = {0};
  const ow_error error{text, sizeof(text)};
  const int32_t status = Guarded(&error, [&] { ObjectOf(state).attr("free")(Handle(handle)); });
  if (status != OW_OK) HostServices()->log(OW_LOG_ERROR, text);
}

int32_t Copy(void* state, void*, void* destination, int32_t destination_is_host, const void* source,
             int32_t source_is_host, uint64_t bytes, const ow_error* error) {
  return Guarded(error, [&] {
    ObjectOf(state).attr("copy")(Handle(destination), destination_is_host != 0, Handle(source),
                                 source_is_host != 0, bytes);
  });
}

int32_t Synchronize(void* state, const ow_error* error) {
  return Guarded(error, [&] { ObjectOf(state).attr("synchronize")(); });
}

}  // namespace

std::shared_ptr<Device> MakePythonDevice(const py::object& object, int32_t number,
                                         const py::object& source, std::string origin) {
  for (const char* method : {"allocate", "free", "copy", "synchronize", "view"}) {
    if (py::hasattr(object, method)) continue;
    Throw(ErrorKind::kProgram, "device: a device written in Python needs the method ", method,
          ", got ", py::repr(object).cast<std::string>());
  }
  auto made = std::make_shared<PythonTable>();
  made->name = object.attr("name").cast<std::string>();
  made->object = py::object(object).release().ptr();
  made->source = (source.is_none() ? object : source).inc_ref().ptr();
  made->number = number;
  ow_device& table = made->table;
  table.size = sizeof(table);
  table.name = made->name.c_str();
  table.dlpack_code = object.attr("dlpack_code").cast<int32_t>();
  table.flags = OW_DEVICE_NEEDS_GIL;
  if (object.attr("addressable").cast<bool>()) table.flags |= OW_DEVICE_ADDRESSABLE;
  table.alignment = 64;
  table.user = made.get();
  table.count = Count;
  table.open = Open;
  table.close = Close;
  table.allocate = Allocate;
  table.free = Free;
  table.copy = Copy;
  table.synchronize = Synchronize;
  const ow_device* pointer = &table;
  const void* key = made->source;
  auto device = MakeRetirable<Device>(pointer, number, std::move(made), std::move(origin));
  return KeepOpenDevice(key, number, std::move(device));
}

}  // namespace opwright
