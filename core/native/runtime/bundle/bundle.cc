#include "runtime/bundle/bundle.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "runtime/bundle/file_map.h"
#include "runtime/bundle/plan_reader.h"
#include "runtime/library/limits.h"
#include "runtime/plan/idle_memory.h"
#include "runtime/threads/fork.h"

namespace opwright {

namespace {

constexpr char kMagic[8] = {'\x89', 'O', 'W', 'B', '\r', '\n', '\x1a', '\n'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMostDescriptor = uint64_t{1} << 30;
constexpr uint64_t kTensorAlignment = 64;
// The maximum number of cached plans; every batch size adds a plan, and each plan has an arena.
constexpr size_t kMostKept = 64;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t descriptor_bytes;
  uint64_t file_bytes;
  Digest digest;  // digest of the descriptor
};
static_assert(sizeof(Header) == 64, "the header has 64 bytes");

// Guards the caches of all bundles; a fork acquires it so that it is free in the child.
std::mutex& Mutex() {
  static std::mutex& mutex = *[] {
    auto* made = new std::mutex;  // never freed, since bundles may outlive statics
    // A fork locks the last registered mutex first, and PlanFor locks this mutex before the mutex
    // of IdleMemory.
    IdleMemory::Get();
    pthread_atfork([] { Mutex().lock(); }, [] { Mutex().unlock(); }, [] { Mutex().unlock(); });
    return made;
  }();
  return mutex;
}

}  // namespace

Shape Port::At(int64_t batch) const {
  Shape shape;
  for (const Affine& dim : dims) {
    int64_t size = 0;
    if (__builtin_mul_overflow(dim.step, batch, &size) ||
        __builtin_add_overflow(size, dim.base, &size)) {
      Throw(ErrorKind::kShape, name, ": dims must fit in 64 bits, got ", Text(), " for n=", batch);
    }
    shape.push_back(size);
  }
  return shape;
}

std::string Port::Text() const {
  std::string text = Concat(name, " ", DtypeName(dtype), "(");
  for (const Affine& dim : dims) {
    if (&dim != dims.data()) text += ", ";
    if (dim.step == 0 || dim.base != 0) text += std::to_string(dim.base);
    if (dim.step == 0) continue;
    if (dim.base != 0) text += " + ";
    text += dim.step == 1 ? "n" : Concat(dim.step, " n");
  }
  return text + ")";
}

std::shared_ptr<Bundle> Bundle::Open(const std::string& path, const BundleOptions& options) {
  const std::shared_ptr<Bundle> bundle(new Bundle(path, options));
  const size_t slash = path.rfind('/');
  bundle->folder_ = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const auto map = std::make_shared<FileMap>(path);
  bundle->Read(map->data(), map->bytes(), map);
  return bundle;
}

std::shared_ptr<Bundle> Bundle::OpenMemory(const void* data, uint64_t bytes, const char* who,
                                           const BundleOptions& options) {
  const std::shared_ptr<Bundle> bundle(new Bundle(who, options));
  bundle->Read(static_cast<const uint8_t*>(data), bytes, nullptr);
  return bundle;
}

void Bundle::Read(const uint8_t* data, uint64_t bytes, const std::shared_ptr<void>& owner) {
  ForkCount();  // from now on, forked children are detected
  Mutex();
  Header header;
  if (bytes < sizeof(header) || std::memcmp(data, kMagic, sizeof(kMagic)) != 0) {
    Fail("must be a bundle of opwright, got ", bytes, " bytes that do not begin like a bundle");
  }
  std::memcpy(&header, data, sizeof(header));
  if (header.version != kVersion || header.header_bytes != sizeof(header)) {
    Fail("must have format ", kVersion, ", got ", header.version,
         "; use the release of opwright that wrote it, or write it again");
  }
  if (header.file_bytes != bytes || header.descriptor_bytes > bytes - sizeof(header) ||
      header.descriptor_bytes > kMostDescriptor) {
    Fail("must have ", header.file_bytes, " bytes according to its header, got ", bytes,
         "; it is truncated or damaged: copy it again");
  }
  // The descriptor is copied, since bytes that have been checked must not change with the file.
  descriptor_.assign(data + sizeof(header), data + sizeof(header) + header.descriptor_bytes);
  if (Sha256(descriptor_.data(), descriptor_.size()) != header.digest) {
    Fail(
        "its descriptor must have the SHA-256 of its header, got another; it is damaged: copy it "
        "again");
  }
  Tokens tokens(descriptor_.data(), descriptor_.size(), who_);
  ReadHead(&tokens, data, bytes, owner);
  ReadKernels(&tokens);
  ReadVariants(&tokens);
  if (tokens.left() != 0) tokens.Fail("must end here, got ", tokens.left(), " more bytes");
}

void Bundle::ReadHead(Tokens* tokens, const uint8_t* data, uint64_t bytes,
                      const std::shared_ptr<void>& owner) {
  least_ = tokens->Int<int64_t>(1, kMostBatch, "the least batch");
  most_ = tokens->Int<int64_t>(least_, kMostBatch, "the largest batch");
  const size_t n_requirements = tokens->Count();
  for (size_t i = 0; i < n_requirements; ++i) {
    Requirement one{tokens->Text(), tokens->Text(), tokens->Text(),
                    tokens->Text(), tokens->Flag(), nullptr};
    for (const std::string* name : {&one.file, &one.folder}) {
      const bool is_name = !name->empty() && name->find('/') == std::string::npos &&
                           name->find('\0') == std::string::npos && (*name)[0] != '.';
      if (!is_name) tokens->Fail("a library must have the name of a file, got '", *name, "'");
    }
    requirements_.push_back(std::move(one));
  }
  inputs_ = ReadPorts(tokens, tokens->Count());
  outputs_ = ReadPorts(tokens, tokens->Count());
  const size_t n_written = tokens->Count();
  for (size_t i = 0; i < n_written; ++i) written_.push_back(tokens->Text());
  const size_t n_tensors = tokens->Count();
  for (size_t i = 0; i < n_tensors; ++i) ReadTensor(tokens, data, bytes, owner);
}

std::vector<Port> Bundle::ReadPorts(Tokens* tokens, size_t n_ports) {
  std::vector<Port> ports;
  for (size_t i = 0; i < n_ports; ++i) {
    Port port;
    port.name = tokens->Text();
    port.dtype = DtypeFromCode(tokens->Id());
    const auto ndim = tokens->Int<size_t>(0, kMaxRank, "a rank");
    for (size_t d = 0; d < ndim; ++d) {
      const Affine dim = tokens->ReadAffine();
      if (dim.step < 0) tokens->Fail("dims must not decrease with the batch, got ", dim.step);
      port.dims.push_back(dim);
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

void Bundle::ReadTensor(Tokens* tokens, const uint8_t* data, uint64_t bytes,
                        const std::shared_ptr<void>& owner) {
  const std::string name = tokens->Text();
  const DLDataType dtype = DtypeFromCode(tokens->Id());
  Shape shape;
  const auto ndim = tokens->Int<size_t>(0, kMaxRank, "a rank");
  for (size_t d = 0; d < ndim; ++d) shape.push_back(tokens->Int());
  const auto offset = tokens->Int<uint64_t>(0, INT64_MAX, "an offset");
  const std::string digest = tokens->Text();
  const int64_t numel =
      CheckedNumel(who_ + ": " + name, shape.data(), static_cast<int32_t>(ndim), ItemSize(dtype));
  const auto size = static_cast<uint64_t>(numel * ItemSize(dtype));
  const uint64_t behind = sizeof(Header) + descriptor_.size() + kTensorAlignment - 1;
  const uint64_t begin = behind - behind % kTensorAlignment;  // offsets count from here
  const bool is_inside = offset % kTensorAlignment == 0 && begin <= bytes &&
                         offset <= bytes - begin && size <= bytes - begin - offset;
  if (!is_inside || digest.size() != sizeof(Digest)) {
    tokens->Fail("the elements of '", name, "' must be in the file after its descriptor, got ",
                 size, " bytes at ", offset);
  }
  if (options_.check_tensors) {
    const Digest found = Sha256(data + begin + offset, size);
    if (std::memcmp(found.data(), digest.data(), found.size()) != 0) {
      Fail("'", name,
           "' must have the SHA-256 of the descriptor, got another; the file is "
           "damaged: copy it again");
    }
  }
  auto tensor = std::make_shared<Tensor>();
  const uint8_t* place = data + begin + offset;
  const bool is_aligned = reinterpret_cast<uintptr_t>(place) % kTensorAlignment == 0;
  if (is_aligned || size == 0) {
    // Foreign memory must have an owner; it is a placeholder if the caller keeps the memory valid.
    const std::shared_ptr<void> held = owner ? owner : std::make_shared<char>();
    tensor->storage = MakeRetirable<Storage>(HostDevice(), const_cast<uint8_t*>(place), size, held,
                                             /*is_read_only=*/true);
  } else {
    tensor->storage = MakeRetirable<Storage>(HostDevice(), size, name);
    std::memcpy(tensor->storage->handle(), place, size);
  }
  tensor->dtype = dtype;
  tensor->strides.resize(ndim);
  FillRowMajorStrides(shape.data(), static_cast<int32_t>(ndim), tensor->strides.data());
  tensor->shape = std::move(shape);
  const std::shared_ptr<ScopeVariable> variable = scope_->Var(name);
  if (variable->tensor()) tokens->Fail("a variable must occur once, got '", name, "' again");
  variable->Replace(std::move(tensor));
}

void Bundle::ReadKernels(Tokens* tokens) {
  for (Requirement& one : requirements_) {
    if (!one.is_optional) OpenLibrary(&one);
  }
  const size_t n_kernels = tokens->Count();
  for (size_t i = 0; i < n_kernels; ++i) {
    KernelName name;
    name.requirement = tokens->Id();
    if (name.requirement >= requirements_.size()) {
      tokens->Fail("a kernel must be of one of ", requirements_.size(), " libraries, got number ",
                   name.requirement);
    }
    name.op_type = tokens->Text();
    name.library = tokens->Text();
    name.dtype = DtypeFromCode(tokens->Id());
    kernels_.push_back(std::move(name));
  }
}

void Bundle::ReadVariants(Tokens* tokens) {
  const size_t n_variants = tokens->Count();
  for (size_t i = 0; i < n_variants; ++i) {
    Variant variant;
    variant.least = tokens->Int<int64_t>(least_, most_, "a batch");
    variant.most = tokens->Int<int64_t>(variant.least, most_, "a batch");
    variant.least_threads = tokens->Int<int32_t>(1, kMaxThreads, "a number of threads");
    variant.most_threads =
        tokens->Int<int32_t>(variant.least_threads, kMaxThreads, "a number of threads");
    variant.size = tokens->Count();
    variant.data = tokens->Take(variant.size);
    variants_.push_back(variant);
  }
}

int64_t Bundle::BatchOf(const std::vector<const DLTensor*>& inputs) const {
  int64_t batch = least_;
  const auto fail = [this](const Port& port, const DLTensor& tensor) {
    Throw(ErrorKind::kFeed, who_, ": must be fed ", port.Text(),
          least_ == most_ ? "" : Concat(" with n in [", least_, ", ", most_, "]"), ", got ",
          DtypeName(tensor.dtype), ShapeText(tensor.shape, tensor.ndim));
  };
  bool is_known = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Port& port = inputs_[i];
    const DLTensor& tensor = *inputs[i];
    if (static_cast<size_t>(tensor.ndim) != port.dims.size() ||
        !SameDtype(tensor.dtype, port.dtype)) {
      fail(port, tensor);
    }
    for (size_t d = 0; d < port.dims.size() && !is_known; ++d) {
      const Affine& dim = port.dims[d];
      if (dim.step == 0) continue;
      int64_t above = 0;
      if (__builtin_sub_overflow(tensor.shape[d], dim.base, &above)) fail(port, tensor);
      batch = above / dim.step;
      is_known = true;
    }
    if (batch < least_ || batch > most_) fail(port, tensor);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Shape shape = inputs_[i].At(batch);
    if (!std::equal(shape.begin(), shape.end(), inputs[i]->shape)) fail(inputs_[i], *inputs[i]);
  }
  return batch;
}

std::shared_ptr<const Plan> Bundle::PlanFor(int64_t batch, int32_t n_threads) {
  const uint32_t fork_count = ForkCount();
  const std::lock_guard<std::mutex> lock(Mutex());
  for (auto place = kept_.begin(); place != kept_.end(); ++place) {
    if (place->batch != batch || place->n_threads != n_threads || place->fork_count != fork_count) {
      continue;
    }
    if (place != kept_.begin()) {
      kept_.front().plan->KeepMemory(false);
      kept_.splice(kept_.begin(), kept_, place);
      kept_.front().plan->KeepMemory(true);
    }
    return kept_.front().plan;
  }
  for (const Variant& variant : variants_) {
    if (batch < variant.least || batch > variant.most || n_threads < variant.least_threads ||
        n_threads > variant.most_threads) {
      continue;
    }
    std::shared_ptr<const Plan> plan = MakePlan(variant, batch, n_threads);
    plan->BoundIdleMemory();
    if (!kept_.empty()) kept_.front().plan->KeepMemory(false);
    plan->KeepMemory(true);
    kept_.push_front({batch, n_threads, fork_count, plan});
    if (kept_.size() > kMostKept) kept_.pop_back();
    return plan;
  }
  Throw(ErrorKind::kFeed, who_, ": must have a plan for the batch, n in [", least_, ", ", most_,
        "], got none for n=", batch, " and ", n_threads, " threads");
}

std::shared_ptr<const Plan> Bundle::MakePlan(const Variant& variant, int64_t batch,
                                             int32_t n_threads) {
  Tokens tokens(variant.data, variant.size, who_);
  tokens.set_batch(batch);
  std::shared_ptr<const Plan> plan = PlanReader(this, &tokens, n_threads).Read();
  const auto check = [&](const Port& port, uint32_t number) {
    const Value& value = plan->values[number];
    const Shape shape = port.At(batch);
    const int64_t* dims = plan->dims.data() + value.dims_begin;
    if (!SameDtype(value.dtype, port.dtype) || static_cast<size_t>(value.ndim) != shape.size() ||
        !std::equal(shape.begin(), shape.end(), dims)) {
      tokens.Fail("the plan for n=", batch, " must have ", port.Text(), ", got ",
                  DtypeName(value.dtype), ShapeText(dims, value.ndim));
    }
  };
  if (plan->feeds.size() != inputs_.size() || plan->fetches.size() != outputs_.size()) {
    tokens.Fail("a plan must have ", inputs_.size(), " inputs and ", outputs_.size(),
                " outputs, got ", plan->feeds.size(), " and ", plan->fetches.size());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    check(inputs_[i], plan->externals[plan->feeds[i]].values[0]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) check(outputs_[i], plan->fetches[i]);
  return plan;
}

std::shared_ptr<Scope> Bundle::NewScope() const {
  if (written_.empty()) return scope_;
  auto scope = std::make_shared<Scope>(scope_);
  for (const std::string& name : written_) {
    const std::shared_ptr<ScopeVariable> common = scope_->FindVar(name);
    const std::shared_ptr<const Tensor> tensor = common ? common->tensor() : nullptr;
    if (!tensor) continue;  // the first run creates it
    auto copy = MakeTensor(HostDevice(), tensor->dtype, tensor->shape, name);
    if (tensor->bytes() != 0) std::memcpy(copy->data(), tensor->data(), tensor->bytes());
    scope->Var(name)->Replace(std::move(copy));
  }
  return scope;
}

}  // namespace opwright
