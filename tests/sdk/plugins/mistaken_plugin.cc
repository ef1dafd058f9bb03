// A plugin that lists an operator whose description breaks a rule.
#include <opwright/sdk.hpp>

#include "negation.hpp"

struct Mistaken : Negate {
  static void Make(opwright::OpMaker<opwright::NoAttrs>& op) { op.AddComment("No slots."); }
};

OPWRIGHT_REGISTER_OP(mistaken, "test.mistaken", Mistaken);
OPWRIGHT_PLUGIN("test", mistaken);
