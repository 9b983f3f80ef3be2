"""Verification: the walk along the target's choices, of trees and of chains, and the metadata of its forward."""
