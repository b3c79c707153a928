//! The simulated world and the sandbox that the tests of autoloop run in.
