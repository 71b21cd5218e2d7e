"""What a command fails with."""
import pytest
from pymongo.errors import OperationFailure


def code(work, *args, **options):
    """The error code of a call that must fail."""
    with pytest.raises(OperationFailure) as failure:
        work(*args, **options)
    return failure.value.code
