"""Any verified file as rounds of matched sends and receives, which any library of messages runs."""
