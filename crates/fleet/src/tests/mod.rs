//! Tests of the fleet as a whole.

mod simulation;
