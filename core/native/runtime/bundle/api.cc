// The functions of opwright/run.h.
#include "opwright/run.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "runtime/border.h"
#include "runtime/bundle/session.h"
#include "runtime/library/host.h"
#include "runtime/library/limits.h"
#include "runtime/threads/fork.h"

using opwright::Bundle;
using opwright::Error;
using opwright::ErrorKind;
using opwright::Port;
using opwright::Session;
using opwright::Throw;

struct ow_model {
  explicit ow_model(std::shared_ptr<Bundle> opened) : bundle(std::move(opened)) {
    for (const auto* ports : {&bundle->inputs(), &bundle->outputs()}) {
      for (const Port& port : *ports) {
        auto& dims = steps_and_bases.emplace_back();
        for (const opwright::Affine& dim : port.dims) dims.push_back(dim.step);
        for (const opwright::Affine& dim : port.dims) dims.push_back(dim.base);
        dims.push_back(0);  // keeps the pointer non-null
      }
    }
  }

  std::shared_ptr<Bundle> bundle;
  std::atomic<int64_t> n_owners{1};
  std::vector<std::vector<int64_t>> steps_and_bases;  // for the inputs, then for the outputs
};

struct ow_session {
  explicit ow_session(ow_model* of) : model(of), session(of->bundle) { ow_retain(of); }
  ~ow_session() { ow_release(model); }
  ow_session(const ow_session&) = delete;
  ow_session& operator=(const ow_session&) = delete;

  ow_model* model;
  Session session;
};

namespace {

constexpr int64_t kNoSteps[opwright::kMaxRank] = {};

void Write(const ow_error* error, const char* text) {
  if (error != nullptr) opwright::WriteMessage(error->message, error->message_bytes, text);
}

// Runs a function and catches all exceptions.
template <typename Function>
int32_t Guard(const ow_error* error, const Function& function) noexcept {
  try {
    function();
    return OW_OK;
  } catch (const opwright::Cancelled& cancelled) {
    Write(error, cancelled.what());
    return OW_CANCELLED;
  } catch (const Error& failure) {
    Write(error, failure.what());
    return failure.kind() == ErrorKind::kOutOfMemory ? OW_OUT_OF_MEMORY : OW_ERROR;
  } catch (const std::bad_alloc&) {
    Write(error, "opwright: out of memory");
    return OW_OUT_OF_MEMORY;
  } catch (const std::exception& failure) {
    Write(error, failure.what());
    return OW_ERROR;
  }
}

template <typename T>
void CheckGiven(const T* pointer, const char* function, const char* argument) {
  if (pointer != nullptr) return;
  Throw(ErrorKind::kProgram, function, ": ", argument, " must not be NULL");
}

opwright::BundleOptions OptionsOf(const ow_open_options* given) {
  opwright::BundleOptions options;
  if (given == nullptr) return options;
  if (OW_HAS(given, folders)) opwright::AddFolders(given->folders, &options.folders);
  if (OW_HAS(given, flags)) options.check_tensors = (given->flags & OW_OPEN_CHECK) != 0;
  return options;
}

Session::Tensors ListTensors(const DLTensor* const* tensors, uint64_t n, const char* function) {
  if (n != 0) CheckGiven(tensors, function, "an array of tensors");
  Session::Tensors list;
  for (uint64_t i = 0; i < n; ++i) {
    CheckGiven(tensors[i], function, "a tensor");
    const DLTensor& tensor = *tensors[i];
    if (tensor.ndim < 0 || tensor.ndim > opwright::kMaxRank) {
      Throw(ErrorKind::kFeed, function, ": the rank of a tensor must be in [0, ",
            opwright::kMaxRank, "], got ", tensor.ndim);
    }
    if (tensor.ndim > 0) CheckGiven(tensor.shape, function, "the shape of a tensor");
    if (tensor.dtype.bits == 0) {
      Throw(ErrorKind::kFeed, function, ": a tensor must have a dtype, got 0 bits");
    }
    // Checks that the size in bytes does not overflow.
    opwright::CheckedNumel(function, tensor.shape, tensor.ndim, opwright::ItemSize(tensor.dtype));
    list.push_back(&tensor);
  }
  return list;
}

// Copies the part of a struct that its reader supports.
template <typename T>
void Fill(const T& made, T* into) {
  const uint64_t size = std::min<uint64_t>(into->size, sizeof(T));
  if (size <= sizeof(into->size)) return;
  std::memcpy(reinterpret_cast<char*>(into) + sizeof(into->size),
              reinterpret_cast<const char*>(&made) + sizeof(into->size), size - sizeof(into->size));
}

struct Managed {
  DLManagedTensorVersioned tensor;
  std::shared_ptr<const opwright::Tensor> held;
};

DLManagedTensorVersioned* Manage(std::shared_ptr<const opwright::Tensor> tensor) {
  auto* managed = new Managed{{}, std::move(tensor)};
  managed->tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->tensor.manager_ctx = managed;
  managed->tensor.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Managed*>(self->manager_ctx);
  };
  managed->tensor.dl_tensor = managed->held->AsDLTensor();
  return &managed->tensor;
}

void RunManaged(Session* session, const Session::Tensors& inputs,
                DLManagedTensorVersioned** outputs) {
  const Bundle& bundle = session->bundle();
  if (inputs.size() != bundle.inputs().size()) {
    Throw(ErrorKind::kFeed, bundle.who(), ": must be given ", bundle.inputs().size(),
          " inputs, got ", inputs.size());
  }
  const int64_t batch = bundle.BatchOf(inputs);
  std::vector<std::shared_ptr<const opwright::Tensor>> made;
  std::vector<DLTensor> views;
  Session::Tensors list;
  for (const Port& port : bundle.outputs()) {
    made.push_back(
        opwright::MakeTensor(opwright::HostDevice(), port.dtype, port.At(batch), port.name));
    views.push_back(made.back()->AsDLTensor());
  }
  for (const DLTensor& view : views) list.push_back(&view);
  session->Run(inputs, list);
  std::vector<DLManagedTensorVersioned*> managed;
  try {
    for (auto& tensor : made) managed.push_back(Manage(std::move(tensor)));
  } catch (...) {
    for (DLManagedTensorVersioned* one : managed) one->deleter(one);
    throw;
  }
  std::copy(managed.begin(), managed.end(), outputs);
}

}  // namespace

extern "C" {

uint32_t ow_version(void) { return OW_RUN_MAJOR << 16 | OW_RUN_MINOR; }

int32_t ow_open(const char* path, const ow_open_options* options, ow_model** model,
                const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(path, "ow_open", "path");
    CheckGiven(model, "ow_open", "model");
    *model = new ow_model(Bundle::Open(path, OptionsOf(options)));
  });
}

int32_t ow_open_memory(const void* data, uint64_t bytes, const ow_open_options* options,
                       ow_model** model, const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(data, "ow_open_memory", "data");
    CheckGiven(model, "ow_open_memory", "model");
    *model = new ow_model(Bundle::OpenMemory(data, bytes, "bundle", OptionsOf(options)));
  });
}

void ow_retain(ow_model* model) {
  if (model != nullptr) model->n_owners.fetch_add(1, std::memory_order_relaxed);
}

void ow_release(ow_model* model) {
  if (model == nullptr || model->n_owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  delete model;
  opwright::FreeRetired();
}

uint64_t ow_count(const ow_model* model, uint32_t kind) {
  if (model == nullptr) return 0;
  const Bundle& bundle = *model->bundle;
  return kind == OW_INPUTS      ? bundle.inputs().size()
         : kind == OW_OUTPUTS   ? bundle.outputs().size()
         : kind == OW_STATE     ? bundle.written().size()
         : kind == OW_LIBRARIES ? bundle.requirements().size()
                                : 0;
}

int32_t ow_describe(const ow_model* model, uint32_t kind, uint64_t i, ow_description* description,
                    const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(model, "ow_describe", "model");
    CheckGiven(description, "ow_describe", "description");
    const Bundle& bundle = *model->bundle;
    if (kind > OW_STATE || i >= ow_count(model, kind)) {
      Throw(ErrorKind::kProgram,
            "ow_describe: kind must be OW_INPUTS, OW_OUTPUTS or OW_STATE, and "
            "i below its count, got ",
            kind, " and ", i);
    }
    ow_description made{};
    made.least_batch = bundle.least_batch();
    made.most_batch = bundle.most_batch();
    if (kind == OW_STATE) {
      made.name = bundle.written()[i].c_str();
      const auto variable = bundle.scope()->FindVar(made.name);
      const auto tensor = variable ? variable->tensor() : nullptr;
      if (tensor) {  // the scope owns it
        made.dtype = tensor->dtype;
        made.ndim = tensor->ndim();
        made.steps = kNoSteps;
        made.bases = tensor->shape.data();
      }
    } else {
      const bool is_input = kind == OW_INPUTS;
      const Port& port = (is_input ? bundle.inputs() : bundle.outputs())[i];
      made.name = port.name.c_str();
      made.dtype = port.dtype;
      made.ndim = static_cast<int32_t>(port.dims.size());
      made.steps = model->steps_and_bases[is_input ? i : bundle.inputs().size() + i].data();
      made.bases = made.steps + port.dims.size();
    }
    Fill(made, description);
  });
}

int32_t ow_get_requirement(const ow_model* model, uint64_t i, ow_requirement* requirement,
                           const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(model, "ow_get_requirement", "model");
    CheckGiven(requirement, "ow_get_requirement", "requirement");
    if (i >= ow_count(model, OW_LIBRARIES)) {
      Throw(ErrorKind::kProgram, "ow_get_requirement: i must be below ",
            ow_count(model, OW_LIBRARIES), ", got ", i);
    }
    const opwright::Requirement& one = model->bundle->requirements()[i];
    ow_requirement made{};
    made.file = one.file.c_str();
    made.plugin = one.plugin.c_str();
    made.version = one.version.c_str();
    made.path = one.is_optional || !one.library ? nullptr : one.library->path().c_str();
    made.is_optional = one.is_optional ? 1 : 0;
    Fill(made, requirement);
  });
}

int32_t ow_session_new(ow_model* model, ow_session** session, const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(model, "ow_session_new", "model");
    CheckGiven(session, "ow_session_new", "session");
    *session = new ow_session(model);
  });
}

void ow_session_free(ow_session* session) { delete session; }

int32_t ow_get(ow_session* session, const char* name, const DLTensor* value,
               const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(session, "ow_get", "session");
    CheckGiven(name, "ow_get", "name");
    session->session.GetState(name, *ListTensors(&value, 1, "ow_get")[0]);
  });
}

int32_t ow_set(ow_session* session, const char* name, const DLTensor* value,
               const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(session, "ow_set", "session");
    CheckGiven(name, "ow_set", "name");
    session->session.SetState(name, *ListTensors(&value, 1, "ow_set")[0]);
  });
}

int32_t ow_output_shapes(const ow_model* model, const DLTensor* const* inputs, uint64_t n_inputs,
                         int64_t* dims, uint64_t n_dims, const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(model, "ow_output_shapes", "model");
    const Bundle& bundle = *model->bundle;
    const Session::Tensors list = ListTensors(inputs, n_inputs, "ow_output_shapes");
    if (n_inputs != bundle.inputs().size()) {
      Throw(ErrorKind::kFeed, bundle.who(), ": must be given ", bundle.inputs().size(),
            " inputs, got ", n_inputs);
    }
    const int64_t batch = bundle.BatchOf(list);
    opwright::Shape all;
    for (const Port& port : bundle.outputs()) {
      const opwright::Shape shape = port.At(batch);
      all.insert(all.end(), shape.begin(), shape.end());
    }
    if (all.size() > n_dims) {
      Throw(ErrorKind::kProgram, "ow_output_shapes: dims must have room for ", all.size(),
            " numbers, got ", n_dims);
    }
    if (!all.empty()) CheckGiven(dims, "ow_output_shapes", "dims");
    std::copy(all.begin(), all.end(), dims);
  });
}

int32_t ow_warm(ow_session* session, int64_t batch, const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(session, "ow_warm", "session");
    session->session.Warm(batch);
  });
}

int32_t ow_run(ow_session* session, const DLTensor* const* inputs, uint64_t n_inputs,
               const DLTensor* const* outputs, uint64_t n_outputs, const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(session, "ow_run", "session");
    session->session.Run(ListTensors(inputs, n_inputs, "ow_run"),
                         ListTensors(outputs, n_outputs, "ow_run"));
  });
}

int32_t ow_run_managed(ow_session* session, const DLTensor* const* inputs, uint64_t n_inputs,
                       DLManagedTensorVersioned** outputs, uint64_t n_outputs,
                       const ow_error* error) {
  return Guard(error, [&] {
    CheckGiven(session, "ow_run_managed", "session");
    const uint64_t n_made = session->session.bundle().outputs().size();
    if (n_outputs != n_made) {
      Throw(ErrorKind::kFeed, "ow_run_managed: must be given room for ", n_made, " outputs, got ",
            n_outputs);
    }
    if (n_outputs != 0) CheckGiven(outputs, "ow_run_managed", "outputs");
    RunManaged(&session->session, ListTensors(inputs, n_inputs, "ow_run_managed"), outputs);
  });
}

void ow_cancel(ow_session* session) {
  if (session != nullptr) session->session.Cancel();
}

int32_t ow_set_threads(int32_t n_threads, const ow_error* error) {
  return Guard(error, [&] {
    const int32_t most = opwright::ForkCount() != 0 ? 1 : opwright::kMaxThreads;
    if (n_threads < 1 || n_threads > most) {
      Throw(ErrorKind::kProgram, "ow_set_threads: must be in [1, ", most, "]",
            most == 1 ? " in a process created by a fork" : "", ", got ", n_threads);
    }
    opwright::LimitThreads(n_threads);
  });
}

void ow_set_log(void (*log)(void* user, int32_t level, const char* message), void* user) {
  opwright::SetLog(log, user);
}

}  // extern "C"
