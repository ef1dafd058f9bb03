// Plugins that cannot be loaded; the macro says why.
#include "two_files.hpp"

#if defined(UNLISTED)
OPWRIGHT_DEFINE_OP(negate);
OPWRIGHT_PLUGIN("test", );
#elif defined(MISSING)
OPWRIGHT_DEFINE_OP(negate);
OPWRIGHT_PLUGIN("test", negate, softmax);
#elif defined(MISTAKEN)
struct Mistaken : Negate {
  static void Make(opwright::OpMaker<opwright::NoAttrs>& op) { op.AddComment("No slots."); }
};
OPWRIGHT_REGISTER_OP(mistaken, "test.mistaken", Mistaken);
OPWRIGHT_PLUGIN("test", mistaken);
#elif defined(EMPTY)
OPWRIGHT_PLUGIN("test", );
#endif
