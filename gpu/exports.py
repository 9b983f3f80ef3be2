"""Every operation of ``specsim.gpu``, from the module of its group; ``exports.pyi`` has their signatures."""

from importlib import import_module

from specsim.operations import MODEL_TABLE, RECORDS

for _name, _record in RECORDS.items():
    _module = import_module(f"specsim.gpu.{'models.' if _name in MODEL_TABLE else ''}{_record.group}")
    globals()[_name] = vars(_module)[_name]

__all__ = list(RECORDS)
