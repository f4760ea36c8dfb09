//! Terminals: screens made from recorded output, and real shells.

mod screens;
mod shells;
