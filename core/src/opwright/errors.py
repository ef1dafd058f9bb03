"""The opwright errors, in one tree; each class is also derived from a suitable builtin.

All messages have the form ``<operator or key>: <rule broken>, got <value>; <way out>``.
"""

from __future__ import annotations


class OpwrightError(Exception):
    """The base class of every error that opwright raises intentionally.

    Attributes
    ----------
    outputs : tuple of str
        The variables that the failed operator writes, if an operator of a plan has failed.
    """

    outputs: tuple[str, ...] = ()


class OperatorNotFoundError(OpwrightError, LookupError):
    """No installed plugin provides an operator of this type."""


class KernelNotFoundError(OpwrightError, LookupError):
    """No registered kernel fits the operator, the device and the dtype."""


class VariableNotFoundError(OpwrightError, LookupError):
    """The block or the scope has no variable of this name."""


class DeviceNotFoundError(OpwrightError, LookupError):
    """No installed plugin provides a device of this name."""


class SlotError(OpwrightError, ValueError):
    """A slot is unknown, missing, or has the wrong number of variables."""


class AttributeValueError(OpwrightError, ValueError):
    """An attribute is unknown, missing, or outside its declared range."""


class AttributeTypeError(OpwrightError, TypeError):
    """The value of an attribute does not have the type that the operator declares."""


class ShapeError(OpwrightError, ValueError):
    """Shapes do not fit the operator, the variable or the parameter."""


class DtypeError(OpwrightError, TypeError):
    """A dtype is unknown or does not fit the operator."""


class ProgramError(OpwrightError, ValueError):
    """A program or network is not well formed."""


class GradientError(OpwrightError, ValueError):
    """A gradient cannot be computed."""


class FeedError(OpwrightError, ValueError):
    """A feed or fetch is missing, unknown or does not fit its variable."""


class RegistrationError(OpwrightError, ValueError):
    """An operator, kernel, device or pass is described incorrectly or registered twice."""


class PluginError(OpwrightError, RuntimeError):
    """A plugin could not be loaded, or breaks a rule for plugins.

    Attributes
    ----------
    advice : str or None
        The command that is most likely to help, if it is known.
    """

    def __init__(self, *args: object, advice: str | None = None) -> None:
        super().__init__(*args)
        self.advice = advice


class MissingRequirementError(PluginError):
    """A requirement of a plugin, such as a package, library or tool, is missing on this machine.

    The kernel or device that raises it is not at fault, so the conformance kit skips it.
    """


class LockError(OpwrightError, RuntimeError):
    """Installed packages, or the kernels of a plan, differ from the lock."""


class KernelError(OpwrightError, RuntimeError):
    """A kernel failed while a plan was prepared or run."""


class OutOfMemoryError(OpwrightError, MemoryError):
    """A device could not allocate memory for a plan or tensor."""


class FileTakenError(OpwrightError, FileExistsError):
    """A file exists that must not be overwritten without permission."""


class FileMissingError(OpwrightError, FileNotFoundError):
    """A file or folder to read does not exist."""


class SettingError(OpwrightError, ValueError):
    """A setting of the process, or an environment variable, has an invalid value."""


class FormatError(OpwrightError, ValueError):
    """A file or message is truncated, foreign, too large or of a newer format."""


class CommandError(OpwrightError, ValueError):
    """A command-line argument is invalid or names an unknown object."""
