"""longtail analyse xda: what added texts do to the distribution of labels."""

from __future__ import annotations

from longtail.cli import options
from longtail.cli.console import print_json, start_run, stdout_console
from longtail.cli.data import DataOptions


def xda(
    data: options.LabelledData,
    png: options.Png = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Examples per label before and after: longtail analyse xda train.jsonl augmented.jsonl.

    Sample level counts added texts for all their labels, pair level for those that are not masked.
    """
    if png is not None:
        from longtail.keep.files import check_output

        check_output(png, overwrite=overwrite)
    from longtail.analyse.label_distribution import Distribution, distribution_png, distribution_table

    run = start_run(quiet=quiet)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding, force=True)
    found = Distribution.of(how.read(data, run))
    if png is not None:
        distribution_png(found, png, overwrite=overwrite)
    if json:
        print_json(found.to_dict())
        return
    console = stdout_console()
    console.print(distribution_table(found.to_dict()))
    if png is not None:
        console.print(f"drawn into {png}", markup=False)
