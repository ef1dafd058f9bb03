// Descriptions that break rules, and the message for the first rule that each of them breaks.
#include <cstring>
#include <limits>
#include <opwright/sdk.hpp>

struct Attrs {
  int64_t count;
  float rate;
  std::string mode;
};
using Maker = opwright::OpMaker<Attrs>;

namespace {

struct Mistake {
  const char* name;
  const char* type;
  void (*make)(Maker& op);
};

void AddSlots(Maker& op) {
  op.AddComment("A comment.");
  op.AddInput("x", "an input");
  op.AddOutput("out", "an output").SameDtypeAs("x");
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const Mistake kMistakes[] = {
    {"none", "test.op", [](Maker& op) { AddSlots(op); }},
    {"type", "test.Op", [](Maker& op) { AddSlots(op); }},
    {"prefix", "a.b.op", [](Maker& op) { AddSlots(op); }},
    {"keyword type", "test.lambda", [](Maker& op) { AddSlots(op); }},
    {"no comment", "test.op", [](Maker& op) { op.AddInput("x", "an input"); }},
    {"second comment", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddComment("Another.");
     }},
    {"version", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.SetVersion(0);
     }},
    {"slot name", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("2x", "no name");
     }},
    {"keyword name", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "lambda", "keyword").Required();
     }},
    {"taken name", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "x", "taken").Required();
     }},
    {"slot comment", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("y", " ");
     }},
    {"dtypes", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("y", "y").Dtypes("float");
     }},
    {"same as", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("y", "y").SameDtypeAs("z");
     }},
    {"same as itself", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("y", "y").SameDtypeAs("y");
     }},
    {"same as twice", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("y", "y").SameDtypeAs("x").SameDtypeAs("x");
     }},
    {"shape only output", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddOutput("y", "y").AsShapeOnly();
     }},
    {"intermediate input", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddInput("y", "y").AsIntermediate();
     }},
    {"aliases", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddOutput("y", "y").Aliases("z");
     }},
    {"aliases a list", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddOutput("y", "y").AsDuplicable().Aliases("x");
     }},
    {"aliases twice", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddOutput("y", "y").Aliases("x");
       op.AddOutput("z", "z").Aliases("x");
     }},
    {"absent", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "rate", "rate");
     }},
    {"required default", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "rate", "rate").Default(1).Required();
     }},
    {"default range", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "rate", "rate").Default(-0.5f).GreaterThan(0);
     }},
    {"default nan", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "rate", "rate").Default(kNan).Between(0.0f, 0.1f);
     }},
    {"default allowed", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::mode, "mode", "mode").Default("slow").OneOf("fast", "exact");
     }},
    {"default twice", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::count, "count", "count").Default(1).Default(2);
     }},
    {"empty range", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::count, "count", "count").Default(1).GreaterThan(2).AtMost(2);
     }},
    {"nan bound", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::rate, "rate", "rate").Required().AtLeast(kNan);
     }},
    {"range and allowed", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::count, "count", "count").Required().AtLeast(0).OneOf(1, 2);
     }},
    {"allowed twice", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::count, "count", "count").Required().OneOf(1, 2, 1);
     }},
    {"dtype name", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.AddAttr(&Attrs::mode, "dtype", "dtype").Required().AsDtype("double");
     }},
    {"dispatch", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.DispatchOn("out");
     }},
    {"no dispatch", "test.op",
     [](Maker& op) {
       op.AddComment("A comment.");
       op.AddOutput("out", "an output");
     }},
    {"gradient type", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.Gradient("test.other", {"x"});
     }},
    {"gradient needs", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.Gradient("test.op_grad", {"y"});
     }},
    {"gradient of ints", "test.op",
     [](Maker& op) {
       op.AddComment("A comment.");
       op.AddInput("x", "ids").Dtypes("int64");
       op.AddOutput("out", "an output").SameDtypeAs("x");
       op.Gradient("test.op_grad", {});
     }},
    {"two gradients", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.Gradient("test.op_grad", {});
       op.NoGradient("it has one");
     }},
    {"no reason", "test.op",
     [](Maker& op) {
       AddSlots(op);
       op.NoGradient(" ");
     }},
};

}  // namespace

// Writes the error that is reported for the mistake of this name, or "" if there is none.
extern "C" __attribute__((visibility("default"))) int32_t describe_mistake(const char* name,
                                                                           char* message,
                                                                           uint64_t message_bytes) {
  for (const Mistake& mistake : kMistakes) {
    if (std::strcmp(mistake.name, name) != 0) continue;
    message[0] = '\0';
    return opwright::detail::AtBorder(message, message_bytes, [&] {
      Maker maker(mistake.type);
      mistake.make(maker);
      opwright::detail::OpRules(maker.description()).Check();
      return opwright::Status::Ok();
    });
  }
  return -1;
}
