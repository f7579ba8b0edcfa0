"""What is wrong with one record, before it is known whether that ends the reading."""

from __future__ import annotations


class RecordError(Exception):
    """One thing wrong with one record; becomes an InputError, or a count under `skip_bad`.

    Readers of records also hand it on in the place of a record that they cannot make out.
    """
