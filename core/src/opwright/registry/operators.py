"""The operators of installed plugins by type; definitions are imported at first use."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from opwright.errors import OperatorNotFoundError, RegistrationError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.quarantine import advise_operator
from opwright.packages.registrations import OpRegistration
from opwright.packages.rules import check_owner, is_library, make_op
from opwright.registry.named import NamedRegistry
from opwright.targets.opening import load_target
from opwright.vocabulary import GRAD_SUFFIX

if TYPE_CHECKING:  # importing it takes 15 ms
    from opwright.describe.definition import OpDefinition


class OpRegistry(NamedRegistry["OpDefinition"]):
    """Operator types, and their definitions as entries."""

    noun = "operator"
    name_of = attrgetter("type")

    def __contains__(self, type: str) -> bool:
        return type in self._registered

    def __len__(self) -> int:
        return len(self._registered)

    def add(
        self, type: str, target: str | OpDefinition, package: Package, hidden: bool = False
    ) -> None:
        """Add one operator.

        Parameters
        ----------
        type : str
            Operator type: ``<plugin>.<name>``, or unprefixed for opwright-std only.
        target : str or OpDefinition
            ``"module:attribute"`` of the definition, the path of a library in the package, or the
            definition itself.
        package : Package
            The package that provides it.
        hidden : bool
            Whether listings omit it, such as a helper of gradients.

        Raises
        ------
        RegistrationError
            For a type that is taken, malformed or reserved for another package.
        """
        check_owner(type, package)
        if isinstance(target, str):
            self._add(make_op(type, target, hidden), package)
            return
        definition = self._checked(type, target, package, hidden)
        self._add(OpRegistration(type, "", hidden), package)
        self._entries[type] = definition

    def package_of(self, type: str) -> Package:
        """Return the package of an operator, or of the forward operator of a derived gradient.

        Raises OperatorNotFoundError if no plugin provides it.
        """
        owner = self.find_owner(type)
        if owner is not None:
            return owner
        self.get(type)
        return self.package_of(type.removesuffix(GRAD_SUFFIX))

    def types(self, all: bool = False) -> list[str]:
        """Return the registered operator types, sorted, with helpers of gradients only if `all`."""
        return sorted(type for type in self._registered if all or not self.is_hidden(type))

    def is_hidden(self, type: str) -> bool:
        """Return whether listings omit an operator."""
        registered = self._registered.get(type)
        return registered is not None and registered[0].hidden

    def not_found(self, type: str) -> OperatorNotFoundError:
        """Return the error for an operator type that no plugin provides.

        The error suggests a similar type, and names plugins that failed to load and the package to
        install.
        """
        title = f"{type}: no operator of this type is registered{self._hint(type)}"
        advice = advise_operator(type, self._report)
        plugin = type.partition(".")[0]
        return OperatorNotFoundError(self._report.explain(title, advice, plugin))

    def _hint(self, type: str) -> str:
        if not self._registered:
            return "; no plugin provides any operator"
        failure = self._report.find_failure(type.partition(".")[0])
        if failure is not None and failure.package not in self._report.loaded:
            return ""  # its plugin is quarantined and reported
        alias = self._find_by_alias(type)
        if alias is not None:
            return f"; did you mean {alias!r}?"
        known = self.types() or self.types(all=True)
        prefix, dot, _ = type.rpartition(".")
        siblings = [other for other in known if dot and other.startswith(prefix + ".")]
        text = hint(type, siblings or known, "operators")
        return text if text.startswith("; did you mean") or siblings else "; see: opwright ops"

    def _find_by_alias(self, name: str) -> str | None:
        """Return the type with this name or alias, ignoring case and underscores."""
        folded = _fold(name)
        names = ((type, *item.aliases) for type, (item, _) in self._registered.items())
        return next((group[0] for group in names if folded in map(_fold, group)), None)

    def _make(self, type: str) -> OpDefinition | None:
        if type not in self._registered:
            return self._derive(type)
        registration, package = self._registered[type]
        target = registration.target
        definition: object
        if is_library(target):
            library = self.libraries.load(target, type, package)
            definition = library.load_definition(type, registration.hidden)
        else:
            definition = load_target(target, type, package, self.libraries.notes)
        # If two threads race, the object of the first thread is kept.
        checked = self._checked(type, definition, package, registration.hidden)
        return self._entries.setdefault(type, checked)

    @staticmethod
    def _checked(type: str, definition: object, package: Package, hidden: bool) -> OpDefinition:
        from opwright.describe.definition import OpDefinition

        if not isinstance(definition, OpDefinition):
            raise RegistrationError(
                f"{type}: definition must be a result of OpMaker.build, got {definition!r} from "
                f"{package.label}; end the chain with .build(...)"
            )
        if definition.proto.type != type:
            raise RegistrationError(
                f"{type}: definition must be of the type it is registered for, got one of "
                f"{definition.proto.type!r} from {package.label}; make both names equal"
            )
        if definition.plan_only and not hidden:
            raise RegistrationError(
                f"{type}: a plan-only operator must be hidden, got hidden=False from "
                f"{package.label}; pass hidden=True to registry.add"
            )
        return definition

    def _derive(self, type: str) -> OpDefinition | None:
        """Create the definition of ``<forward>_grad`` if the rule of ``<forward>`` emits it."""
        if not type.endswith(GRAD_SUFFIX):
            return None
        forward = self.find(type.removesuffix(GRAD_SUFFIX))
        if forward is None:
            return None
        from opwright.describe.gradient_rules import GradOp, derive_grad_definition

        rule = forward.gradient
        if not isinstance(rule, GradOp) or rule.type != type:
            return None
        return self._entries.setdefault(type, derive_grad_definition(forward))


def _fold(name: str) -> str:
    """Return a name in lower case without underscores: ``ReduceSum`` becomes ``reducesum``."""
    return name.replace("_", "").lower()
