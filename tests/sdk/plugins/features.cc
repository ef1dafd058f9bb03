// Operators and kernels that together use every feature of the SDK.
#include <opwright/sdk.hpp>

using opwright::OpMaker;
using opwright::Status;

// ---- every function of the description
// ---------------------------------------------------------------

struct EverythingAttrs {
  int64_t count;
  int32_t small;
  float rate;
  double exact;
  bool flag;
  std::string mode;
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<float> weights;
  std::vector<std::string> names;
  std::vector<bool> switches;
  std::optional<float> maybe;
  std::optional<std::vector<int64_t>> maybe_sizes;
  std::vector<int> none;
};

struct Everything : opwright::Op<EverythingAttrs> {
  static void Make(OpMaker<EverythingAttrs>& op) {
    using A = EverythingAttrs;
    op.AddComment("Every word, and ä as UTF-8.");
    op.AddInput("x", "data").Dtypes("float32", "float64");
    op.AddInput("list", "many").AsDuplicable().SameDtypeAs("list");
    op.AddInput("like", "shape").AsShapeOnly().AsOptional();
    op.AddOutput("out", "result").SameDtypeAs("dtype");
    op.AddOutput("list_out", "updated").AsDuplicable().Aliases("list").SameDtypeAs("list");
    op.AddOutput("saved", "for the gradient").AsIntermediate().AsOptional().Dtypes("float32");
    op.AddAttr(&A::count, "count", "int").Required().AtLeast(-3);
    op.AddAttr(&A::small, "small", "int").Default(0).Between(-1, 7);
    op.AddAttr(&A::rate, "rate", "float").Default(0.1f).GreaterThan(0.0f).LessThan(1.5f);
    op.AddAttr(&A::exact, "exact", "float").Default(0.0).AtMost(1e300);
    op.AddAttr(&A::flag, "flag", "bool").Default(false);
    op.AddAttr(&A::mode, "mode", "str").Default("fast").OneOf("fast", "exact", "");
    op.AddAttr(&A::dtype, "dtype", "dtype").Default("float32").AsDtype("float32", "int64");
    op.AddAttr(&A::sizes, "sizes", "ints").Default({1, -2, 300}).AtLeast(-2);
    op.AddAttr(&A::weights, "weights", "floats").Default({0.1f, 2.5f});
    op.AddAttr(&A::names, "names", "strs").Default({"a", ""});
    op.AddAttr(&A::switches, "switches", "bools").Default({true, false});
    op.AddAttr(&A::maybe, "maybe", "may be absent").GreaterThan(0);
    op.AddAttr(&A::maybe_sizes, "maybe_sizes", "may be absent").OneOf(1, 2);
    op.AddAttr(&A::none, "none", "empty").Default(std::vector<int>{});
    op.DispatchOn("x");
    op.DynamicOutput();
    op.SetVersion(3);
    op.Hide();
    op.NoGradient("it is a test");
  }
  static Status InferShape(opwright::InferShapeContext& ctx, const EverythingAttrs& attrs) {
    return ctx.output(0).SetMeta({attrs.count, attrs.small}, opwright::DtypeOf<int64_t>());
  }
};

// Writes the attributes that it has read, in a form that a test can compare.
template <typename T>
struct EchoKernel {
  Status Run(const opwright::RunContext& ctx, const EverythingAttrs& a) const {
    double sum = 0;
    for (int64_t size : a.sizes) sum += static_cast<double>(size);
    for (float weight : a.weights) sum += static_cast<double>(weight);
    for (bool on : a.switches) sum += on ? 1000 : 0;
    T* out = ctx.output(0).data<T>();
    out[0] = static_cast<T>(a.count);
    out[1] = static_cast<T>(a.small);
    out[2] = static_cast<T>(a.rate);
    out[3] = static_cast<T>(a.exact);
    out[4] = static_cast<T>(a.flag ? 1 : 0);
    out[5] = static_cast<T>(a.mode.size() + 10 * a.names.size());
    out[6] = static_cast<T>(sum);
    out[7] = static_cast<T>(a.maybe ? *a.maybe : -1);
    out[8] = static_cast<T>(a.maybe_sizes ? a.maybe_sizes->size() : 99);
    return Status::Ok();
  }
};

OPWRIGHT_REGISTER_OP(everything, "test.everything", Everything);
OPWRIGHT_REGISTER_KERNEL(everything, "cpu", EchoKernel, double);

// ---- prepare, bind, pack, workspace
// --------------------------------------------------------------

struct UnaryAttrs {
  std::string mode;
};

struct Unary : opwright::Op<UnaryAttrs> {
  static void Make(OpMaker<UnaryAttrs>& op) {
    op.AddComment("Does what the mode says.");
    op.AddInput("x", "any shape");
    op.AddInput("y", "absent or not").AsOptional();
    op.AddOutput("out", "shape and dtype of x").SameDtypeAs("x");
    op.AddAttr(&UnaryAttrs::mode, "mode", "what to do").Required();
  }
  static Status InferShape(opwright::InferShapeContext& ctx) {
    return ctx.output(0).SetShape(ctx.input(0).shape());
  }
};

// out = x + n_threads + (number of runs of this instance), through the workspace.
template <typename T>
struct StagedKernel {
  struct Bound {
    int runs = 0;
  };
  T offset{};

  static void Configure(opwright::KernelOptions& options) {
    options.priority = 77;
    options.library = "staged";
    options.capturable = true;
    options.deterministic = false;
    options.strided = true;
    options.may_reuse = {{"out", "x"}};
  }
  Status Prepare(opwright::PrepareContext& ctx, const UnaryAttrs& attrs) {
    if (attrs.mode == "refuse") return Status::Refused("rank ", ctx.input(0).rank(), " is odd");
    if (attrs.mode == "fail") return Status::Error("no luck with ", ctx.op_type());
    if (attrs.mode == "throw") throw std::runtime_error("thrown in prepare");
    if (attrs.mode == "memory") throw std::bad_alloc();
    offset = static_cast<T>(ctx.n_threads());
    ctx.SetWorkspace(static_cast<uint64_t>(ctx.input(0).numel()) * sizeof(T));
    ctx.SetEstimate(ctx.unread(0) ? 12 : 123);
    ctx.ForbidCapture();
    if (ctx.packable(0)) OPWRIGHT_RETURN_IF_ERROR(ctx.Pack(0, 2 * sizeof(T), 128));
    return Status::Ok();
  }
  Status Bind(const opwright::RunContext& ctx, const UnaryAttrs& /*attrs*/, Bound& bound) const {
    bound.runs = ctx.has_input(1) ? 100 : 0;
    return Status::Ok();
  }
  Status Pack(const opwright::RunContext& /*ctx*/, uint32_t arg,
              const opwright::InputTensor& source, void* destination) const {
    static_cast<T*>(destination)[0] = source.data<T>()[0] * 2;
    static_cast<T*>(destination)[1] = static_cast<T>(arg);
    return Status::Ok();
  }
  Status Run(const opwright::RunContext& ctx, const UnaryAttrs& /*attrs*/, Bound& bound) const {
    ++bound.runs;
    T* scratch = ctx.workspace<T>();
    scratch[0] = offset + static_cast<T>(bound.runs);
    for (int64_t i = 0; i < ctx.output(0).numel(); ++i) {
      ctx.output(0).data<T>()[i] = ctx.input(0).data<T>()[i] + scratch[0];
    }
    return Status::Ok();
  }
};

OPWRIGHT_REGISTER_OP(unary, "test.unary", Unary);
OPWRIGHT_REGISTER_KERNEL(unary, "cpu", StagedKernel, float);

// ---- kernels that fail, for every dtype
// ------------------------------------------------------

template <typename Any>
struct WrongKernel {
  static Status Run(const opwright::RunContext& ctx, const UnaryAttrs& attrs) {
    if (attrs.mode == "throw") throw std::runtime_error("thrown in run");
    if (attrs.mode == "throw int") throw 7;
    if (attrs.mode == "dtype") ctx.input(0).data<bool>();
    if (attrs.mode == "absent") ctx.input(1);
    if (attrs.mode == "slot") ctx.output(5);
    if (attrs.mode == "axis") ctx.input(0).dim(-3);
    if (attrs.mode == "long") return Status::Error(std::string(600, 'x'), "ä");
    if (attrs.mode == "cut") return Status::Error(std::string(510, 'x'), "äöü");
    if (attrs.mode == "resize") return ctx.Resize(0, {4, 2});
    OPWRIGHT_ENFORCE(ctx.input(0).dim(-1) == 2, "the last dim must be 2, got ",
                     ctx.input(0).dim(-1));
    return Status::Ok();
  }
};

OPWRIGHT_DECLARE_OP(elsewhere, "other.unary", Unary);
OPWRIGHT_REGISTER_KERNEL(elsewhere, "cpu", WrongKernel, opwright::AnyDtype);

OPWRIGHT_PLUGIN("test", everything, unary, elsewhere);
