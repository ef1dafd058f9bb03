// Writes the registrations of libraries as a Python module: list_kernels MODULE.py LIBRARY.so...
//
// The build runs this program. Hooks of the package read the module instead of opening libraries.
#include <dlfcn.h>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <opwright/sdk.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

// Kernels of one library that differ only in the dtype.
struct Row {
  std::string op_type;
  std::string library;
  int32_t priority;
  std::vector<std::string> dtypes;  // or "*"
};

void Log(int32_t /*level*/, const char* message) { std::fprintf(stderr, "%s\n", message); }

const ow_plugin* Open(const std::string& path) {
  static ow_host host{};
  host.size = sizeof(ow_host);
  host.abi_major = OW_ABI_MAJOR;
  host.abi_minor = OW_ABI_MINOR;
  host.log = &Log;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, OW_PLUGIN_ENTRY);
  if (symbol == nullptr) throw std::runtime_error(dlerror());
  const ow_plugin* plugin = nullptr;
  const int32_t status = reinterpret_cast<ow_plugin_entry_fn>(symbol)(&host, &plugin);
  if (status != OW_OK) throw std::runtime_error(path + ": the entry point returned an error");
  return plugin;
}

// Returns the position of a dtype in a row, which does not depend on the order in the source.
size_t PlaceOf(const std::string& dtype) {
  static constexpr const char* kOrder[] = {
      "*",       "bool",    "int8",   "int16",  "int32",         "int64",
      "uint8",   "uint16",  "uint32", "uint64", "float16",       "bfloat16",
      "float32", "float64", "int4",   "uint4",  "float8_e4m3fn", "float8_e5m2"};
  const auto* place = std::find(std::begin(kOrder), std::end(kOrder), dtype);
  if (place == std::end(kOrder)) throw std::runtime_error("unknown dtype: " + dtype);
  return static_cast<size_t>(place - std::begin(kOrder));
}

std::vector<Row> RowsOf(const ow_plugin& plugin) {
  std::vector<Row> rows;
  for (uint64_t i = 0; i < plugin.n_kernels; ++i) {
    const ow_kernel& kernel = *OW_AT(ow_kernel, plugin.kernels, plugin.kernel_stride, i);
    Row row{kernel.op_type,
            kernel.library != nullptr ? kernel.library : plugin.name,
            kernel.priority,
            {}};
    if (kernel.n_dtypes == 0) row.dtypes.emplace_back("*");
    for (uint64_t d = 0; d < kernel.n_dtypes; ++d) {
      row.dtypes.push_back(opwright::DtypeName(kernel.dtypes[d]));
    }
    const auto sibling = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
      return row.op_type == other.op_type && row.library == other.library &&
             row.priority == other.priority;
    });
    if (sibling == rows.end()) {
      rows.push_back(row);
    } else {
      sibling->dtypes.insert(sibling->dtypes.end(), row.dtypes.begin(), row.dtypes.end());
    }
  }
  for (Row& row : rows) {
    std::sort(row.dtypes.begin(), row.dtypes.end(),
              [](const std::string& a, const std::string& b) { return PlaceOf(a) < PlaceOf(b); });
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.op_type, b.priority, a.library) < std::tie(b.op_type, a.priority, b.library);
  });
  return rows;
}

// Returns a Python literal, such as ("*",), ("bool",) or ("float32", "float64").
std::string Literal(const std::vector<std::string>& dtypes) {
  std::string text;
  for (const std::string& dtype : dtypes) text += (text.empty() ? "\"" : ", \"") + dtype + "\"";
  return "(" + text + (dtypes.size() == 1 ? ",)" : ")");
}

// "elementwise" of "build/elementwise.so".
std::string NameOf(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  return file.substr(0, file.rfind('.'));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: list_kernels MODULE.py LIBRARY.so...");
    std::ofstream out(argv[1]);
    out.exceptions(std::ios::failbit | std::ios::badbit);
    out << "\"\"\"What the libraries here register, as the build found it in them.\"\"\"\n"
           "\n"
           "# File, operator type, dtypes, whose implementation, priority.\n"
           "KERNELS = (\n";
    for (int i = 2; i < argc; ++i) {
      for (const Row& row : RowsOf(*Open(argv[i]))) {
        out << "    (\"" << NameOf(argv[i]) << "\", \"" << row.op_type << "\", "
            << Literal(row.dtypes) << ", \"" << row.library << "\", " << row.priority << "),\n";
      }
    }
    out << ")\n";
    out.close();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "list_kernels: %s\n", error.what());
    return 1;
  }
  return 0;
}
