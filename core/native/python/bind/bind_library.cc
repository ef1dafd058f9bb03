// Library: a compiled plugin's tables as plain Python values, and its shape inference.
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

#include "python/bind/handles.h"
#include "python/bind/interpreter_end.h"
#include "python/plugins/native_args.h"
#include "runtime/device/device.h"
#include "runtime/device/open_devices.h"
#include "runtime/library/infer.h"
#include "runtime/library/library.h"
#include "runtime/library/plugin_table.h"
#include "runtime/status.h"

namespace opwright {

namespace {

py::object Text(const char* text) {
  return text == nullptr ? py::object(py::none()) : py::object(py::str(text));  // checked UTF-8
}

py::tuple Ops(const Library& self) {
  const ow_plugin& plugin = self.plugin();
  py::tuple ops(plugin.n_ops);
  for (uint64_t i = 0; i < plugin.n_ops; ++i) {
    const ow_op& op = OpAt(plugin, i);
    py::tuple needs(op.n_gradient_needs);
    for (uint32_t n = 0; n < op.n_gradient_needs; ++n) needs[n] = Text(op.gradient_needs[n]);
    ops[i] = py::make_tuple(
        Text(op.type), py::bytes(static_cast<const char*>(op.proto), op.proto_bytes),
        Text(op.gradient_type), needs, Text(op.no_gradient_reason), (op.flags & OW_OP_HIDDEN) != 0);
  }
  return ops;
}

const char* LibraryNameOf(const ow_kernel& kernel, const ow_plugin& plugin) {
  return kernel.library == nullptr ? plugin.name : kernel.library;
}

py::tuple KernelRow(const ow_kernel& kernel, const ow_plugin& plugin) {
  py::tuple dtypes(kernel.n_dtypes);
  for (uint64_t d = 0; d < kernel.n_dtypes; ++d) dtypes[d] = DtypeToCode(kernel.dtypes[d]);
  py::tuple may_reuse(kernel.n_may_reuse);
  for (uint64_t r = 0; r < kernel.n_may_reuse; ++r) {
    may_reuse[r] =
        py::make_tuple(Text(kernel.may_reuse[r].output), Text(kernel.may_reuse[r].input));
  }
  return py::make_tuple(reinterpret_cast<uintptr_t>(&kernel), Text(kernel.op_type),
                        Text(kernel.device), dtypes, Text(LibraryNameOf(kernel, plugin)),
                        kernel.priority, kernel.flags, may_reuse);
}

py::tuple Kernels(const Library& self) {
  const ow_plugin& plugin = self.plugin();
  py::tuple kernels(plugin.n_kernels);
  for (uint64_t i = 0; i < plugin.n_kernels; ++i) {
    kernels[i] = KernelRow(KernelAt(plugin, i), plugin);
  }
  return kernels;
}

py::list KernelsOf(const Library& self, const std::string& op_type, const std::string& device,
                   const std::string& library) {
  const ow_plugin& plugin = self.plugin();
  py::list kernels;
  for (uint64_t i = 0; i < plugin.n_kernels; ++i) {
    const ow_kernel& kernel = KernelAt(plugin, i);
    if (op_type == kernel.op_type && device == kernel.device &&
        library == LibraryNameOf(kernel, plugin)) {
      kernels.append(KernelRow(kernel, plugin));
    }
  }
  return kernels;
}

py::tuple Devices(const Library& self) {
  const ow_plugin& plugin = self.plugin();
  py::tuple names(plugin.n_devices);
  for (uint64_t i = 0; i < plugin.n_devices; ++i) names[i] = Text(DeviceAt(plugin, i).name);
  return names;
}

py::tuple DlpackCodes(const Library& self) {
  const ow_plugin& plugin = self.plugin();
  py::tuple codes(plugin.n_devices);
  for (uint64_t i = 0; i < plugin.n_devices; ++i) codes[i] = DeviceAt(plugin, i).dlpack_code;
  return codes;
}

std::shared_ptr<Device> OpenDevice(const std::shared_ptr<Library>& self, uint64_t index,
                                   int32_t device_id, const std::string& origin) {
  const ow_plugin& plugin = self->plugin();
  if (index >= plugin.n_devices) throw py::index_error("the library has no such device");
  const ow_device& table = DeviceAt(plugin, index);
  FreeRetired();  // the device may still be queued for closing
  if (auto open = FindOpenDevice(&table, device_id)) return open;
  std::shared_ptr<Device> opened;
  {
    const GilReleased released;  // a driver may be slow
    opened = MakeRetirable<Device>(&table, device_id, self, origin);
  }
  return KeepOpenDevice(&table, device_id, std::move(opened));
}

py::list Infer(const Library& self, uint64_t op_index, const py::object& inputs,
               const py::object& attrs, const std::vector<uint32_t>& output_counts) {
  const ow_plugin& plugin = self.plugin();
  if (op_index >= plugin.n_ops) throw py::index_error("the library has no such operator");
  const AttrStore store(attrs);
  const InferRequest request{ToMetas(inputs), store.attrs(), output_counts};
  py::list slots;
  for (const auto& slot : InferNative(OpAt(plugin, op_index), request)) {
    py::list metas;
    for (const InferredMeta& meta : slot) {
      if (!meta) {
        metas.append(py::none());
        continue;
      }
      const uint32_t code = meta->dtype.bits == 0 ? 0 : DtypeToCode(meta->dtype);
      metas.append(py::make_tuple(py::tuple(py::cast(meta->shape)), code));
    }
    slots.append(metas);
  }
  return slots;
}

}  // namespace

void BindLibrary(py::module_& module) {
  module.attr("KERNEL_CAPTURABLE") = OW_KERNEL_CAPTURABLE;
  module.attr("KERNEL_NONDETERMINISTIC") = OW_KERNEL_NONDETERMINISTIC;
  module.attr("KERNEL_STRIDED") = OW_KERNEL_STRIDED;
  module.attr("KERNEL_BY_THREADS") = OW_KERNEL_BY_THREADS;
  module.attr("KERNEL_BLOCKS") = OW_KERNEL_BLOCKS;
  py::class_<Library, std::shared_ptr<Library>>(module, "Library", py::is_final(),
                                                "A compiled plugin.")
      // The loader runs constructors of the library, which may need the GIL in another thread.
      .def(py::init([](const std::string& path) {
             const GilReleased released;
             return Library::Open(path);
           }),
           py::arg("path"))
      .def_property_readonly("path", &Library::path)
      .def_property_readonly("name", [](const Library& self) { return Text(self.plugin().name); })
      .def_property_readonly("version",
                             [](const Library& self) { return Text(self.plugin().version); })
      .def_property_readonly("abi_version",
                             [](const Library& self) {
                               return py::make_tuple(self.plugin().abi_major,
                                                     self.plugin().abi_minor);
                             })
      .def_property_readonly("ops", &Ops)
      .def_property_readonly("kernels", &Kernels)
      .def("kernels_of", &KernelsOf, py::arg("op_type"), py::arg("device"), py::arg("library"))
      .def_property_readonly("devices", &Devices)
      .def_property_readonly("dlpack_codes", &DlpackCodes)
      .def("open_device", &OpenDevice, py::arg("index"), py::arg("device_id") = 0,
           py::arg("origin") = "")
      .def("infer", &Infer, py::arg("op_index"), py::arg("inputs"), py::arg("attrs"),
           py::arg("output_counts"));
}

}  // namespace opwright
