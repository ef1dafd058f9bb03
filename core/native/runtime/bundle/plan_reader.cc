#include "runtime/bundle/plan_reader.h"

#include <algorithm>

#include "runtime/library/limits.h"

namespace opwright {

namespace {

// The codes that `opwright.bundle.recording` writes.
enum Call : int {
  kEnd,
  kExternal,
  kValue,
  kKernel,
  kCopy,
  kEndConstants,
  kBranch,
  kLoop,
  kFetch,
  kKeep,
  kWrites,
  kNumberOfCalls
};

// The maximum number of instances. Instances multiply: if a plan runs a second plan twice, and the
// second plan runs a third plan twice, the third plan has four instances.
constexpr uint64_t kMostInstances = 1 << 16;
constexpr size_t kMostPlans = 256;  // maximum number of plans, each of which may run earlier ones

void AddBytes(std::string* key, const void* data, size_t size) {
  key->append(static_cast<const char*>(data), size);
}

}  // namespace

std::shared_ptr<const Plan> PlanReader::Read() {
  const auto n_plans = tokens_.Int<size_t>(1, kMostPlans, "the number of plans");
  for (size_t i = 0; i < n_plans; ++i) {
    size_ = 1;
    plans_.push_back(ReadPlan());
    sizes_.push_back(size_);
  }
  if (tokens_.left() != 0) tokens_.Fail("a plan must end here, got ", tokens_.left(), " bytes");
  return plans_.back();
}

std::shared_ptr<const Plan> PlanReader::ReadPlan() {
  PlanBuilder builder(HostDevice(), tokens_.Text());
  metas_.clear();
  are_read_.clear();
  std::vector<uint32_t> kept;
  while (true) {
    switch (tokens_.Int<int>(0, kNumberOfCalls - 1, "a call")) {
      case kEnd:
        builder.PlanMemory(kept);
        return builder.Build(nullptr);
      case kExternal: {
        const auto role = tokens_.Int<Role>(0, 3, "a role");
        const std::string name = tokens_.Text();
        builder.AddExternal(role, name, tokens_.Flag());
        break;
      }
      case kValue:
        ReadValue(&builder);
        break;
      case kKernel:
        ReadKernel(&builder);
        break;
      case kCopy: {
        const uint32_t source = tokens_.Id();
        const uint32_t destination = tokens_.Id();
        builder.AddCopy(source, destination, OpIndex());
        break;
      }
      case kEndConstants:
        builder.EndConstants();
        break;
      case kBranch:
        ReadBranch(&builder);
        break;
      case kLoop:
        ReadLoop(&builder);
        break;
      case kFetch:
        builder.AddFetch(tokens_.Id());
        break;
      case kKeep:
        kept.push_back(tokens_.Id());
        break;
      case kWrites: {
        std::vector<std::string> names(tokens_.Count());
        for (std::string& name : names) {
          name = tokens_.Text();
          const auto& written = bundle_.written();
          if (std::find(written.begin(), written.end(), name) == written.end()) {
            tokens_.Fail("outputs of a plan must be listed, got '", name, "'");
          }
        }
        builder.SetWrites(names);
        break;
      }
      default:
        break;
    }
  }
}

void PlanReader::ReadValue(PlanBuilder* builder) {
  const DLDataType dtype = DtypeFromCode(tokens_.Id());
  const auto kind = tokens_.Int<ValueKind>(0, static_cast<int>(ValueKind::kNone), "a kind");
  const auto index = tokens_.Int<int64_t>(0, UINT32_MAX, "an index");
  Shape shape(tokens_.Int<size_t>(0, kMaxRank, "a rank"));
  for (int64_t& dim : shape) dim = tokens_.Int<int64_t>(0, INT64_MAX, "a dim");
  builder->AddValue(dtype, shape, kind, index, nullptr, nullptr);
  metas_.push_back({std::move(shape), dtype});
  are_read_.push_back(kind != ValueKind::kNone);
}

int64_t PlanReader::KeyInt(std::string* key) {
  const int64_t value = tokens_.Int();
  AddBytes(key, &value, sizeof(value));
  return value;
}

std::string PlanReader::KeyText(std::string* key) {
  std::string text = tokens_.Text();
  const uint64_t size = text.size();
  AddBytes(key, &size, sizeof(size));
  key->append(text);
  return text;
}

void PlanReader::ReadAttribute(Attributes* into, std::string* key) {
  ow_attr attr{};
  attr.size = sizeof(attr);
  attr.name = into->texts.emplace_back(KeyText(key)).c_str();
  attr.type = static_cast<int32_t>(KeyInt(key));
  attr.count = tokens_.Count();
  AddBytes(key, &attr.count, sizeof(attr.count));
  const bool is_scalar = attr.type < OW_ATTR_INTS || attr.type == OW_ATTR_BLOCK;
  if (is_scalar && attr.count != 1) tokens_.Fail("an attribute must have one value");
  const auto text = [&]() -> ow_string {
    const std::string& kept = into->texts.emplace_back(KeyText(key));
    return {kept.c_str(), kept.size()};
  };
  const auto number = [&]() -> double {
    const double value = tokens_.Double();
    AddBytes(key, &value, sizeof(value));
    return value;
  };
  switch (attr.type) {
    case OW_ATTR_INT:
    case OW_ATTR_BLOCK:
    case OW_ATTR_BOOL:
      attr.int_value = KeyInt(key);
      break;
    case OW_ATTR_FLOAT:
      attr.float_value = number();
      break;
    case OW_ATTR_STRING:
      attr.string = text();
      break;
    case OW_ATTR_INTS: {
      auto& items = into->ints.emplace_back();
      for (uint64_t i = 0; i < attr.count; ++i) items.push_back(KeyInt(key));
      attr.ints = items.data();
      break;
    }
    case OW_ATTR_FLOATS: {
      auto& items = into->floats.emplace_back();
      for (uint64_t i = 0; i < attr.count; ++i) items.push_back(number());
      attr.floats = items.data();
      break;
    }
    case OW_ATTR_BOOLS: {
      auto& items = into->bools.emplace_back();
      for (uint64_t i = 0; i < attr.count; ++i) items.push_back(KeyInt(key) != 0 ? 1 : 0);
      attr.bools = items.data();
      break;
    }
    case OW_ATTR_STRINGS: {
      auto& items = into->strings.emplace_back();
      for (uint64_t i = 0; i < attr.count; ++i) items.push_back(text());
      attr.strings = items.data();
      break;
    }
    default:
      tokens_.Fail("an attribute must have a type of abi.h, got ", attr.type);
  }
  into->attrs.push_back(attr);
}

void PlanReader::ReadKernel(PlanBuilder* builder) {
  KernelRequest step;
  PrepareRequest request;
  std::string key;
  step.op_index = OpIndex();
  std::vector<uint32_t> kernels(tokens_.Count());
  for (uint32_t& kernel : kernels) {
    kernel = static_cast<uint32_t>(KeyInt(&key));
    if (kernel >= bundle_.kernels_.size()) tokens_.Fail("a kernel must be listed, got ", kernel);
  }
  key += '|';
  request.n_threads = tokens_.Int<int32_t>(0, kMaxThreads, "a number of threads");
  if (request.n_threads == 0) request.n_threads = n_threads_;
  request.is_deterministic = tokens_.Flag();
  AddBytes(&key, &request.n_threads, sizeof(request.n_threads));
  key += request.is_deterministic ? 'd' : '-';
  const size_t n_slots = tokens_.Count();
  step.n_inputs = tokens_.Int<uint32_t>(0, static_cast<int64_t>(n_slots), "the input slots");
  step.slot_begin.push_back(0);
  for (size_t slot = 0; slot < n_slots; ++slot) {
    auto& side = slot < step.n_inputs ? request.inputs : request.outputs;
    auto& metas = side.emplace_back();
    const size_t n_args = tokens_.Count();
    AddBytes(&key, &n_args, sizeof(n_args));
    for (size_t i = 0; i < n_args; ++i) {
      const uint32_t value = tokens_.Id();
      if (value >= metas_.size()) tokens_.Fail("an argument must be a value, got ", value);
      const auto flags = static_cast<uint32_t>(KeyInt(&key));
      if (!are_read_[value] && (flags & OW_ARG_SHAPE_ONLY) == 0) {
        tokens_.Fail("an argument that is read must have elements, got value ", value);
      }
      step.args.push_back(value);
      request.arg_flags.push_back(flags);
      const Meta& meta = metas_[value];
      const uint64_t code = DtypeToCode(meta.dtype) | uint64_t{meta.shape.size()} << 32;
      AddBytes(&key, &code, sizeof(code));
      AddBytes(&key, meta.shape.data(), meta.shape.size() * sizeof(int64_t));
      metas.push_back(meta);
    }
    step.slot_begin.push_back(static_cast<uint32_t>(step.args.size()));
  }
  Attributes attributes;
  const size_t n_attrs = tokens_.Count();
  for (size_t i = 0; i < n_attrs; ++i) ReadAttribute(&attributes, &key);
  request.attrs = std::move(attributes.attrs);
  request.device = HostDevice();
  const int64_t estimate = tokens_.Int();
  step.estimate_ns =
      std::min(static_cast<uint64_t>(std::max<int64_t>(estimate, 0)), kMaxEstimateNs);
  step.prepared = Prepare(kernels, request, key, step.op_index);
  step.workspace_bytes = step.prepared->workspace_bytes;
  builder->AddKernel(std::move(step));
}

std::shared_ptr<Prepared> PlanReader::Prepare(const std::vector<uint32_t>& kernels,
                                              const PrepareRequest& request, const std::string& key,
                                              int32_t op_index) {
  const auto known = prepared_.find(key);
  if (known != prepared_.end()) return known->second;
  std::string reasons;
  for (const uint32_t number : kernels) {
    const Bundle::KernelName& name = bundle_.kernels_[number];
    try {
      const ow_kernel& kernel = bundle_.FindKernel(number);
      const auto& library = bundle_.requirements_[name.requirement].library;
      return prepared_[key] = PrepareNative(&kernel, request, library);
    } catch (const Error& error) {
      const bool refuses = error.kind() == ErrorKind::kRefused ||
                           error.kind() == ErrorKind::kUnsupported ||
                           error.kind() == ErrorKind::kPlugin;
      if (!refuses) throw;
      reasons += Concat("\n  ", name.op_type, " by '", name.library, "': ", error.what());
    }
  }
  Throw(ErrorKind::kKernel, bundle_.who(), ": operator ", op_index,
        " must have a kernel that takes n=", tokens_.batch(), " on this machine, got",
        reasons.empty() ? " none" : reasons, "\n  write the bundle on a machine like this one");
}

std::pair<std::shared_ptr<const Plan>, Bindings> PlanReader::ReadChild() {
  const uint32_t number = tokens_.Id();
  if (number >= plans_.size()) {
    tokens_.Fail("a child must be one of the ", plans_.size(), " plans before, got ", number);
  }
  size_ += sizes_[number];
  if (size_ > kMostInstances) {
    tokens_.Fail("a plan must consist of ", kMostInstances, " instances at most");
  }
  Bindings bindings(tokens_.Count());
  for (auto& [value, external] : bindings) {
    value = tokens_.Id();
    external = tokens_.Id();
  }
  return {plans_[number], std::move(bindings)};
}

void PlanReader::ReadBranch(PlanBuilder* builder) {
  const uint32_t condition = tokens_.Id();
  auto first = ReadChild();
  auto second = ReadChild();
  builder->AddBranch(condition, std::move(first), std::move(second), OpIndex());
}

std::vector<Elements> PlanReader::ReadElements() {
  std::vector<Elements> list(tokens_.Count());
  for (Elements& one : list) {
    one.value = MaybeValue();
    one.external = tokens_.Id();
    one.offset = tokens_.Int<uint64_t>(0, INT64_MAX, "an offset");
  }
  return list;
}

void PlanReader::ReadLoop(PlanBuilder* builder) {
  LoopRequest loop;
  auto body = ReadChild();
  loop.body = std::move(body.first);
  loop.bindings = std::move(body.second);
  loop.condition = MaybeValue();
  loop.carried.resize(tokens_.Count());
  for (Carried& one : loop.carried) {
    one.value = tokens_.Id();
    one.external = tokens_.Id();
    one.next = tokens_.Id();
  }
  loop.max_iterations = tokens_.Int<int64_t>(-1, INT64_MAX, "an iteration limit");
  loop.initial = MaybeValue();
  loop.sequences = ReadElements();
  loop.stacks = ReadElements();
  loop.turns = MaybeValue();
  loop.turns_taken = MaybeValue();
  loop.reverse = tokens_.Flag();
  loop.op_index = OpIndex();
  builder->AddLoop(std::move(loop));
}

}  // namespace opwright
