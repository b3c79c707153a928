//! The words of human run ids: short, friendly, and none of them twice.

/// What a run is like.
pub(super) const ADJECTIVES: [&str; 128] = [
    "agile", "airy", "amber", "ample", "apt", "arctic", "azure", "balmy", "bold", "brave",
    "breezy", "bright", "brisk", "bronze", "calm", "candid", "careful", "cheerful", "clear",
    "clever", "cobalt", "copper", "coral", "cosmic", "cozy", "crimson", "crisp", "curious",
    "dapper", "daring", "deft", "eager", "early", "earnest", "electric", "elegant", "emerald",
    "epic", "fair", "faithful", "fearless", "festive", "fleet", "floral", "fluent", "frank",
    "fresh", "gentle", "gilded", "glad", "gleaming", "golden", "graceful", "grand", "grateful",
    "happy", "hardy", "hazel", "hearty", "helpful", "honest", "humble", "indigo", "ivory",
    "jaunty", "jolly", "jovial", "joyful", "keen", "kind", "lively", "lofty", "loyal", "lucid",
    "lucky", "mellow", "merry", "mighty", "mild", "mindful", "modest", "neat", "nimble", "noble",
    "olive", "patient", "peaceful", "plucky", "polar", "polite", "proud", "quick", "quiet",
    "radiant", "rapid", "ready", "robust", "royal", "ruby", "rustic", "sage", "sandy", "scarlet",
    "serene", "sharp", "silver", "smooth", "snowy", "solar", "sonic", "steady", "sturdy", "sunny",
    "swift", "tender", "thrifty", "tidy", "tranquil", "trusty", "upbeat", "valiant", "vivid",
    "warm", "watchful", "willing", "wise", "witty", "zesty",
];

/// What a run is called.
pub(super) const NOUNS: [&str; 128] = [
    "acorn", "alder", "anchor", "arbor", "aspen", "atlas", "badger", "bamboo", "beacon", "beaver",
    "birch", "bison", "breeze", "bridge", "brook", "canyon", "cedar", "cherry", "cliff", "clover",
    "comet", "compass", "cove", "crane", "creek", "cricket", "delta", "dolphin", "eagle", "elm",
    "ember", "falcon", "feather", "fern", "finch", "fjord", "forest", "fountain", "fox", "garden",
    "geyser", "glacier", "glade", "grove", "gull", "harbor", "harvest", "hawk", "heron", "horizon",
    "ibis", "iris", "island", "ivy", "jasmine", "juniper", "kestrel", "kite", "koala", "lagoon",
    "lake", "lantern", "lark", "laurel", "lemur", "lily", "linden", "lotus", "lynx", "magpie",
    "maple", "marlin", "meadow", "meteor", "moss", "mountain", "nebula", "oak", "oasis", "ocean",
    "orbit", "orchard", "orchid", "osprey", "otter", "owl", "panda", "pebble", "pelican", "peony",
    "pine", "planet", "plover", "pond", "poppy", "prairie", "puffin", "quail", "quartz", "rabbit",
    "raven", "reef", "ridge", "river", "robin", "salmon", "sequoia", "sparrow", "spruce",
    "squirrel", "starling", "stork", "stream", "summit", "swan", "thistle", "thrush", "tulip",
    "tundra", "turtle", "valley", "violet", "walnut", "willow", "wombat", "wren", "zebra",
    "zephyr",
];
